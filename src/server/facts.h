// What the server shows of the model that it serves.
#pragma once

#include "core/json.h"

namespace met::server {

/// Known once the model is loaded; each for the route of its name.
struct Facts {
  json::Value memory;
  json::Value forward;
  json::Value hardware;
};

}  // namespace met::server
