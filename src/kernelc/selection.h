// Which targets a build compiles.
#pragma once

#include <string>
#include <vector>

#include "closure/layers.h"
#include "kernelc/options.h"

namespace met::kernelc {

/// The selected targets, sorted by (hardware, model, quant). `*` stands for every model of a hardware and for
/// every storage family of a model; a named model is looked for in each selected hardware. Errors: an
/// unknown hardware or model, a quant that a named model refuses, nothing selected; each says what there is.
Result<std::vector<closure::Target>> select_targets(const closure::KernelTree& tree, const Options& options);

/// One line: what was selected, and by default or by whom.
std::string announce(const Options& options, std::size_t targets);

}  // namespace met::kernelc
