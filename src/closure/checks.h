// Rules that hold between the targets of a tree.
#pragma once

#include "closure/tree.h"

namespace met::closure {

/// Every hardware that declares [defaults] states each row; models of one hardware that serve the same
/// (model_type, hidden_size) all declare match_names, and each has a name that no rival matches too.
/// Errors: kInvalidArgument naming file and key.
Result<> check_tree(const KernelTree& tree);

}  // namespace met::closure
