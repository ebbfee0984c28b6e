// What the server shows of the model that it serves.
#pragma once

#include "core/json.h"

namespace met::server {

/// Known once the model is loaded; the JSON is for the route of its name.
struct Facts {
  json::Value memory;
  json::Value forward;
  json::Value hardware;
  int kernels_unresolved = 0;  ///< look-ups that found nothing, which a flag allowed
};

}  // namespace met::server
