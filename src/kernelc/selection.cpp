#include "kernelc/selection.h"

#include <algorithm>
#include <set>
#include <tuple>

namespace met::kernelc {
namespace {

using closure::Hardware;
using closure::KernelTree;

std::string join(const Strings& words, std::string_view between) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : std::string(between)) + word;
  return out;
}

template <class Map>
std::string keys(const Map& map) {
  Strings names;
  for (const auto& [name, value] : map) names.push_back(name);
  return names.empty() ? "none" : join(names, ", ");
}

bool contains(const Strings& words, std::string_view word) {
  return std::ranges::find(words, word) != words.end();
}

Result<> check_hardware(const KernelTree& tree, const std::string& name) {
  const Hardware* hardware = tree.hardware(name);
  if (hardware == nullptr)
    return fail(
        ErrorCode::kNotFound,
        "no hardware of the kernel tree is called \"" + name + "\"; there are: " + keys(tree.hardwares()),
        "MET_TARGET_HW");
  if (hardware->manifest.is_target()) return {};
  Strings children;
  for (const auto& [child, other] : tree.hardwares())
    if (other.manifest.inherits == name) children.push_back(child);
  return invalid("MET_TARGET_HW", "\"" + name +
                                      "\" names no arch: it is a parent only; choose one that inherits it: " +
                                      join(children, ", "));
}

Result<> check_models(const KernelTree& tree, const Options& options) {
  for (const std::string& model : options.models) {
    if (model == "*") continue;
    std::set<std::string> known;
    bool found = false;
    for (const std::string& hardware : options.hardware)
      for (const auto& [name, manifest] : tree.hardware(hardware)->models) {
        found |= name == model;
        known.insert(name);
      }
    if (!found)
      return fail(ErrorCode::kNotFound,
                  "no model of " + join(options.hardware, ", ") + " is called \"" + model +
                      "\"; there are: " + join({known.begin(), known.end()}, ", "),
                  "MET_TARGET_MODEL");
  }
  return {};
}

/// Storage families to build of one model. A family that a model does not know is passed over where the model
/// was chosen by `*`, and is an error of `resolve` or the common folder's where it was named.
Strings quants_of(const KernelTree& tree, const Options& options, const std::string& hardware,
                  const std::string& model) {
  const Strings known = tree.quants(hardware, model);
  if (contains(options.quants, "*")) return known;
  Strings out;
  for (const std::string& quant : options.quants)
    if (contains(known, quant) || contains(options.models, model)) out.push_back(quant);
  return out;
}

}  // namespace

Result<std::vector<closure::Target>> select_targets(const KernelTree& tree, const Options& options) {
  for (const std::string& hardware : options.hardware) MET_TRY(check_hardware(tree, hardware));
  MET_TRY(check_models(tree, options));
  std::set<std::tuple<std::string, std::string, std::string>> triples;
  for (const std::string& hardware : options.hardware)
    for (const auto& [model, manifest] : tree.hardware(hardware)->models)
      if (contains(options.models, "*") || contains(options.models, model))
        for (const std::string& quant : quants_of(tree, options, hardware, model))
          triples.emplace(hardware, model, quant);
  std::vector<closure::Target> out;
  for (const auto& [hardware, model, quant] : triples) {
    MET_ASSIGN(closure::Target target, closure::resolve(tree, hardware, model, quant));
    if (target.sources.empty()) return invalid(target.name(), "has no sources");
    out.push_back(std::move(target));
  }
  if (out.empty())
    return fail(ErrorCode::kNotFound,
                "no target is selected by hardware " + join(options.hardware, ", ") + ", model " +
                    join(options.models, ", ") + ", quant " + join(options.quants, ", "),
                "MET_TARGET_QUANT");
  return out;
}

std::string announce(const Options& options, std::size_t targets) {
  const auto one = [&](const char* what, const char* key, const Strings& words) {
    return std::string(what) + " " + join(words, ", ") +
           (contains(options.implicit, key) ? " (default)" : "");
  };
  std::string line = one("hardware", "hw", options.hardware) + "; " + one("model", "model", options.models) +
                     "; " + one("quant", "quant", options.quants) + ": " + std::to_string(targets) +
                     " targets";
  if (!options.implicit.empty()) line += "; choose with MET_TARGET_HW, MET_TARGET_MODEL, MET_TARGET_QUANT";
  return line;
}

}  // namespace met::kernelc
