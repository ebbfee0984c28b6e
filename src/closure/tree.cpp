#include "closure/tree.h"

#include <set>

namespace met::closure {
namespace {

namespace fs = std::filesystem;

/// Folders directly below `path`, in name order.
Strings folders(const fs::path& path) {
  std::set<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(path, error))
    if (entry.is_directory()) names.insert(entry.path().filename().string());
  return {names.begin(), names.end()};
}

Result<> refuse_symlinks(const KernelTree& tree) {
  std::error_code error;
  auto it = fs::recursive_directory_iterator(tree.root(), error);
  if (error) return fail(ErrorCode::kIo, "is no folder that can be read", tree.root().string());
  for (const auto& entry : it)
    if (entry.is_symlink())
      return invalid(tree.label(entry.path()),
                     "is a symbolic link; the kernel tree holds none, name the file in [sources] use");
  return {};
}

Result<Hardware> load_hardware(const KernelTree& tree, const std::string& name) {
  const fs::path folder = tree.root() / name;
  const fs::path file = folder / "HARDWARE.toml";
  if (!fs::exists(file)) return invalid(tree.label(folder), "holds no HARDWARE.toml");
  Hardware out;
  MET_ASSIGN(out.manifest, read_hardware(file, tree.label(file)));
  if (out.manifest.name != name)
    return invalid(tree.label(file),
                   "key hardware.name is \"" + out.manifest.name + "\", not its folder's name");
  for (const std::string& model : folders(folder)) {
    if (!is_plain_name(model)) return invalid(tree.label(folder / model), "is no name for a model's folder");
    const fs::path manifest = folder / model / "MODEL.toml";
    const fs::path bench = folder / model / "BENCH.toml";
    if (fs::exists(bench)) MET_TRY(check_bench(bench, tree.label(bench)));
    if (!fs::exists(manifest)) continue;
    if (model == "common") return invalid(tree.label(manifest), "common is no model");
    MET_ASSIGN(out.models[model], read_model(manifest, tree.label(manifest)));
  }
  return out;
}

Result<> check_parent(const KernelTree& tree, const Hardware& hardware) {
  const HardwareManifest& own = hardware.manifest;
  if (own.inherits.empty()) return {};
  const std::string file = tree.label(tree.root() / own.name / "HARDWARE.toml");
  const Hardware* parent = tree.hardware(own.inherits);
  if (parent == nullptr || own.inherits == own.name)
    return invalid(file, "key hardware.inherits names \"" + own.inherits + "\", which is no other hardware");
  if (parent->manifest.vendor != own.vendor)
    return invalid(file, "key hardware.inherits names a hardware of another vendor");
  if (!parent->manifest.inherits.empty())
    return invalid(
        file, "key hardware.inherits names \"" + own.inherits + "\", which inherits itself: one level only");
  return {};
}

/// A redirect ends at a model with sources of its own.
Result<> check_redirects(const KernelTree& tree, const Hardware& hardware) {
  const fs::path own = tree.root() / hardware.manifest.name;
  for (const auto& [model, manifest] : hardware.models) {
    const std::string& source = manifest.kernel_source;
    if (source.empty()) continue;
    const std::string file = tree.label(own / model / "MODEL.toml");
    const bool found = fs::is_directory(own / source) ||
                       (!hardware.manifest.inherits.empty() &&
                        fs::is_directory(tree.root() / hardware.manifest.inherits / source));
    if (!is_plain_name(source) || source == model || source == "common" || !found)
      return invalid(file, "key model.kernel_source names \"" + source + "\", which is no other model");
    const auto target = hardware.models.find(source);
    if (target != hardware.models.end() && !target->second.kernel_source.empty())
      return invalid(file, "key model.kernel_source names \"" + source + "\", which is redirected itself");
    if (!folders(own / model).empty())
      return invalid(
          file,
          "key model.kernel_source redirects a model that has folders of its own: they would never be read");
  }
  return {};
}

}  // namespace

Result<KernelTree> KernelTree::load(const fs::path& root) {
  KernelTree tree;
  tree.root_ = root;
  MET_TRY(refuse_symlinks(tree));
  for (const std::string& name : folders(root)) {
    if (name == "include") continue;
    if (!is_plain_name(name)) return invalid(tree.label(root / name), "is no name for a hardware's folder");
    MET_ASSIGN(tree.hardwares_[name], load_hardware(tree, name));
  }
  for (const auto& [name, hardware] : tree.hardwares_) {
    MET_TRY(check_parent(tree, hardware));
    MET_TRY(check_redirects(tree, hardware));
  }
  return tree;
}

const Hardware* KernelTree::hardware(const std::string& name) const {
  const auto it = hardwares_.find(name);
  return it == hardwares_.end() ? nullptr : &it->second;
}

Strings KernelTree::quants(const std::string& hardware, const std::string& model) const {
  std::set<std::string> names;
  const Hardware* own = this->hardware(hardware);
  if (own == nullptr) return {};
  for (const std::string& tier : {hardware, own->manifest.inherits})
    if (!tier.empty())
      for (const std::string& quant : folders(root_ / tier / model)) names.insert(quant);
  if (const auto it = own->models.find(model); it != own->models.end()) {
    const ModelManifest& manifest = it->second;
    if (!manifest.kernel_source.empty() && manifest.kernel_source != model)
      for (const std::string& quant : quants(hardware, manifest.kernel_source)) names.insert(quant);
    if (!manifest.supported_quants.empty())
      names = {manifest.supported_quants.begin(), manifest.supported_quants.end()};
  }
  return {names.begin(), names.end()};
}

std::string KernelTree::label(const fs::path& path) const {
  return "kernels/" + path.lexically_relative(root_).generic_string();
}

}  // namespace met::closure
