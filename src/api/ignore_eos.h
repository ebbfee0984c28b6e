// `ignore_eos` beside a grammar: the text goes on as long as the grammar lets it.
#pragma once

#include <memory>
#include <vector>

#include "api/request.h"
#include "sampling/constraint.h"

namespace met::api {

/// As `inner`, without `eos_ids` wherever any other id may follow.
std::shared_ptr<const sampling::Constraint> eos_last(std::shared_ptr<const sampling::Constraint> inner,
                                                     std::vector<TokenId> eos_ids);

}  // namespace met::api
