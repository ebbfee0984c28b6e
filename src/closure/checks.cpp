#include "closure/checks.h"

#include <algorithm>
#include <cctype>

namespace met::closure {
namespace {

std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

bool share_a_type(const ModelManifest& a, const ModelManifest& b) {
  return std::ranges::any_of(a.model_types, [&](const ModelTypeRow& row) {
    return std::ranges::any_of(b.model_types, [&](const ModelTypeRow& other) {
      return row.model_type == other.model_type && row.hidden_size == other.hidden_size;
    });
  });
}

/// Whether some name of `a` may match without one of `b` matching as well.
bool can_win(const ModelManifest& a, const ModelManifest& b) {
  return std::ranges::any_of(a.match_names, [&](const std::string& needle) {
    return std::ranges::none_of(b.match_names, [&](const std::string& other) {
      return lower(needle).find(lower(other)) != std::string::npos;
    });
  });
}

Result<> check_rivals(const Hardware& hardware) {
  const std::string prefix = "kernels/" + hardware.manifest.name + "/";
  for (const auto& [name, model] : hardware.models)
    for (const auto& [other_name, other] : hardware.models) {
      if (name == other_name || !share_a_type(model, other)) continue;
      const std::string file = prefix + name + "/MODEL.toml";
      if (model.match_names.empty())
        return invalid(file, "key model.match_names is missing: " + other_name +
                                 " serves the same model_type and hidden_size");
      if (!can_win(model, other))
        return invalid(
            file, "key model.match_names can never win: whatever it matches, " + other_name + " matches too");
    }
  return {};
}

}  // namespace

Result<> check_tree(const KernelTree& tree) {
  for (const auto& [name, hardware] : tree.hardwares()) {
    if (!hardware.manifest.unstated_defaults.empty())
      return invalid("kernels/" + name + "/HARDWARE.toml",
                     "key defaults." + hardware.manifest.unstated_defaults.front() +
                         " is missing: a hardware that declares [defaults] states every row");
    MET_TRY(check_rivals(hardware));
  }
  return {};
}

}  // namespace met::closure
