#include "closure/layers.h"

#include <algorithm>
#include <array>
#include <set>

#include "closure/entries.h"
#include "closure/schema.h"

namespace met::closure {
namespace {

namespace fs = std::filesystem;

/// One of the up to four directories with what it pulls in.
struct Layer {
  Role role;
  Tier tier;
  fs::path folder;
  fs::path manifest_path;  // empty: no KERNEL.toml
  std::string manifest_name;
  KernelManifest manifest;
  std::map<std::string, fs::path> files;
};

std::string stem(const std::string& file) { return fs::path(file).stem().string(); }

Result<> add_file(const KernelTree& tree, Vendor vendor, const fs::path& path, Layer& layer) {
  const std::string file = path.filename().string();
  if (file.ends_with(".toml") || file.ends_with(".md")) {
    const bool known = file.ends_with(".md") || file == "KERNEL.toml";
    return known ? Result<>() : invalid(tree.label(path), "is no file that a layer holds");
  }
  if (!is_source(file, vendor) && !is_header(file))
    return invalid(tree.label(path),
                   "is neither a source of vendor " + std::string(name(vendor)) + " nor a header");
  if (file == "target.h") return invalid(tree.label(path), "is the name of the generated header");
  const auto [it, added] = layer.files.emplace(file, path);
  if (!added)
    return invalid(layer.manifest_name, "key sources.use brings " + file + " twice into one layer: " +
                                            tree.label(it->second) + " and " + tree.label(path));
  return {};
}

Result<> add_folder(const KernelTree& tree, Vendor vendor, const fs::path& folder, Layer& layer) {
  std::set<fs::path> paths;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.is_regular_file()) paths.insert(entry.path());
  for (const fs::path& path : paths) MET_TRY(add_file(tree, vendor, path, layer));
  return {};
}

Result<> add_used(const KernelTree& tree, const Hardware& hardware, Layer& layer) {
  const fs::path base = tree.root() / hardware.manifest.name;
  for (const std::string& use : layer.manifest.use) {
    const fs::path relative = fs::path(use).lexically_normal();
    const fs::path path = base / relative;
    if (relative.is_absolute() || relative.empty() || *relative.begin() == ".." || !fs::exists(path))
      return invalid(layer.manifest_name, "key sources.use names \"" + use + "\", which is not in kernels/" +
                                              hardware.manifest.name);
    if (path == layer.folder || path.parent_path() == layer.folder)
      return invalid(layer.manifest_name,
                     "key sources.use names \"" + use + "\", which is in this layer already");
    MET_TRY(fs::is_directory(path) ? add_folder(tree, hardware.manifest.vendor, path, layer)
                                   : add_file(tree, hardware.manifest.vendor, path, layer));
  }
  return {};
}

/// The layer of a folder, or none where the folder does not exist.
Result<> add_layer(const KernelTree& tree, const Hardware& hardware, Role role, Tier tier,
                   const fs::path& folder, std::vector<Layer>& layers) {
  if (!fs::is_directory(folder)) return {};
  Layer layer{.role = role,
              .tier = tier,
              .folder = folder,
              .manifest_path = {},
              .manifest_name = {},
              .manifest = {},
              .files = {}};
  layer.manifest_name = tree.label(folder / "KERNEL.toml");
  if (fs::exists(folder / "KERNEL.toml")) {
    layer.manifest_path = folder / "KERNEL.toml";
    MET_ASSIGN(layer.manifest, read_kernel(layer.manifest_path, layer.manifest_name));
  }
  MET_TRY(add_folder(tree, hardware.manifest.vendor, folder, layer));
  MET_TRY(add_used(tree, hardware, layer));
  layers.push_back(std::move(layer));
  return {};
}

/// Least specific first: parent common, own common, parent leaf, own leaf.
Result<std::vector<Layer>> read_layers(const KernelTree& tree, const Hardware& own, const std::string& model,
                                       const std::string& quant) {
  const Hardware* parent = own.manifest.inherits.empty() ? nullptr : tree.hardware(own.manifest.inherits);
  const ModelManifest& manifest = own.models.at(model);
  const fs::path leaf = fs::path(manifest.kernel_source.empty() ? model : manifest.kernel_source) / quant;
  std::vector<Layer> layers;
  for (const auto& [role, folder] :
       {std::pair(Role::kCommon, fs::path("common")), std::pair(Role::kLeaf, leaf)}) {
    if (parent)
      MET_TRY(add_layer(tree, *parent, role, Tier::kParent, tree.root() / parent->manifest.name / folder,
                        layers));
    MET_TRY(add_layer(tree, own, role, Tier::kOwn, tree.root() / own.manifest.name / folder, layers));
  }
  return layers;
}

struct Win {
  const Layer* winner;
  const Layer* loser;
  std::string file;        // of the winner
  std::string loser_file;  // same name, or same stem
};

/// Every file of `layer` that wins over one of another layer.
std::vector<Win> wins_of(const Layer& layer, const std::vector<Layer>& layers, Vendor vendor) {
  std::vector<Win> wins;
  for (const auto& [file, path] : layer.files)
    for (const Layer& other : layers) {
      const bool by_name = other.role == layer.role && other.tier < layer.tier;
      const bool by_stem = other.role < layer.role && is_source(file, vendor);
      if (!by_name && !by_stem) continue;
      for (const auto& [other_file, other_path] : other.files) {
        const bool meets =
            by_name ? other_file == file : is_source(other_file, vendor) && stem(other_file) == stem(file);
        if (meets) wins.push_back({&layer, &other, file, other_file});
      }
    }
  return wins;
}

/// Each win is declared, each declaration wins something, and nothing wins over itself.
Result<std::vector<Win>> check_shadows(const KernelTree& tree, const std::vector<Layer>& layers,
                                       Vendor vendor) {
  std::vector<Win> all;
  for (const Layer& layer : layers) {
    std::set<std::string> alive;
    for (Win& win : wins_of(layer, layers, vendor)) {
      const bool declared = layer.manifest.shadow.contains(win.file);
      const fs::path& loser = win.loser->files.at(win.loser_file);
      if (layer.files.at(win.file) == loser) {
        if (declared)
          return invalid(
              layer.manifest_name,
              "key shadow." + win.file + " shadows itself: [sources] use pulls " + tree.label(loser));
        continue;
      }
      if (!declared)
        return invalid(layer.manifest_name, tree.label(layer.files.at(win.file)) + " wins over " +
                                                tree.label(loser) + ": declare it in [shadow] with a reason");
      alive.insert(win.file);
      all.push_back(std::move(win));
    }
    for (const auto& [file, reason] : layer.manifest.shadow)
      if (!alive.contains(file))
        return invalid(layer.manifest_name, "key shadow." + file + " shadows nothing");
  }
  return all;
}

void append_unique(const Strings& from, Strings& to) {
  for (const std::string& flag : from)
    if (std::ranges::find(to, flag) == to.end()) to.push_back(flag);
}

KernelManifest merge(const std::vector<Layer>& layers, const HardwareManifest& hardware) {
  KernelManifest out;
  append_unique(hardware.flags, out.flags);
  for (const Layer& layer : layers) {
    append_unique(layer.manifest.flags, out.flags);
    for (const auto& [key, value] : layer.manifest.modules) out.modules[key] = value;
    for (const auto& [key, value] : layer.manifest.isa) out.isa[key] = value;
    for (const auto& [key, value] : layer.manifest.shadow_exempt)
      append_unique(value, out.shadow_exempt[key]);
  }
  return out;
}

RoleFiles role_files(const std::vector<Layer>& layers, Role role) {
  RoleFiles out;
  for (const Layer& layer : layers) {
    if (layer.role != role) continue;
    for (const auto& [file, path] : layer.files) out.files[file] = path;
    out.folders.insert(out.folders.begin(), layer.folder);
  }
  return out;
}

/// Sources by stem: leaf over common.
Result<std::vector<Source>> choose_sources(const KernelTree& tree, const Target& target,
                                           const KernelManifest& merged) {
  std::map<std::string, Source> by_stem;
  const Vendor vendor = target.hardware_manifest->vendor;
  for (const Role role : {Role::kCommon, Role::kLeaf})
    for (const auto& [file, path] : target.files(role).files) {
      if (!is_source(file, vendor)) continue;
      const std::string key = stem(file);
      const auto module = merged.modules.find(key);
      const auto isa = merged.isa.find(key);
      by_stem[key] = {key,  module == merged.modules.end() ? key : module->second, file, role,
                      path, isa == merged.isa.end() ? Strings() : isa->second};
    }
  for (const auto& [key, module] : merged.modules)
    if (!by_stem.contains(key))
      return invalid(target.name(),
                     "key modules." + key + " of a KERNEL.toml names no source of this target");
  std::map<std::string, Source> by_module;
  for (auto& [key, source] : by_stem) {
    const auto [it, added] = by_module.emplace(source.module, source);
    if (!added)
      return invalid(target.name(), "module " + source.module +
                                        " has two sources: " + tree.label(it->second.path) + " and " +
                                        tree.label(source.path) + "; rename one in [modules]");
  }
  std::vector<Source> out;
  for (auto& [module, source] : by_module) out.push_back(std::move(source));
  return out;
}

bool lists_isa(const HardwareManifest& hardware, const std::string& set) {
  return std::ranges::any_of(hardware.isa, [&](const auto& arch) {
    return std::ranges::find(arch.second, set, &IsaFlags::value_type::first) != arch.second.end();
  });
}

Result<> check_isa(const Target& target, const KernelManifest& merged) {
  for (const auto& [key, sets] : merged.isa) {
    if (std::ranges::find(target.sources, key, &Source::stem) == target.sources.end())
      return invalid(target.name(), "key isa." + key + " of a KERNEL.toml names no source of this target");
    for (const std::string& set : sets)
      if (!lists_isa(*target.hardware_manifest, set))
        return invalid(target.name(),
                       "key isa." + key + " names \"" + set + "\", which HARDWARE.toml does not list");
  }
  return {};
}

/// Entry points that a shadow loses.
Result<> find_dropped(const KernelTree& tree, const std::vector<Win>& wins, const KernelManifest& merged,
                      Target& target) {
  std::set<std::pair<std::string, std::string>> seen;
  for (const Win& win : wins) {
    if (!is_source(win.loser_file, target.hardware_manifest->vendor)) continue;
    const auto source = std::ranges::find(target.sources, stem(win.file), &Source::stem);
    MET_ASSIGN(const std::string kept_text, read_text(source->path));
    MET_ASSIGN(const std::string lost_text, read_text(win.loser->files.at(win.loser_file)));
    const auto kept = entry_points(kept_text);
    for (const std::string& kernel : entry_points(lost_text)) {
      if (kept.contains(kernel) || !seen.emplace(source->module, kernel).second) continue;
      target.dropped.push_back({source->module, kernel, win.winner->manifest.shadow.at(win.file)});
      const auto exempt = merged.shadow_exempt.find(source->module);
      if (exempt != merged.shadow_exempt.end() &&
          std::ranges::find(exempt->second, kernel) != exempt->second.end())
        continue;
      target.warnings.push_back(target.name() + ": entry point " + source->module + "." + kernel + " of " +
                                tree.label(win.loser->files.at(win.loser_file)) + " is lost to " +
                                tree.label(source->path) + " (name it in [shadow_exempt] if that is meant)");
    }
  }
  std::ranges::sort(target.dropped, {}, [](const Dropped& d) { return std::pair(d.module, d.kernel); });
  return {};
}

Result<Target> describe(const KernelTree& tree, const std::string& hardware, const std::string& model,
                        const std::string& quant) {
  const Hardware* own = tree.hardware(hardware);
  if (own == nullptr) return fail(ErrorCode::kNotFound, "is no hardware of the kernel tree", hardware);
  const auto found = own->models.find(model);
  if (found == own->models.end())
    return fail(ErrorCode::kNotFound, "is no model of kernels/" + hardware, model);
  if (!is_plain_name(quant)) return invalid(quant, "is no name for a storage family");
  const ModelManifest& manifest = found->second;
  const auto& supported = manifest.supported_quants;
  if (!supported.empty() && std::ranges::find(supported, quant) == supported.end())
    return fail(ErrorCode::kUnsupported,
                "quant " + quant + " is not one of supported_quants in kernels/" + hardware + "/" + model +
                    "/MODEL.toml",
                hardware + "/" + model + "/" + quant);
  Target target{.hardware = hardware,
                .model = model,
                .quant = quant,
                .hardware_manifest = &own->manifest,
                .model_manifest = &manifest,
                .common = {},
                .leaf = {},
                .sources = {},
                .flags = {},
                .dropped = {},
                .warnings = {},
                .manifests = {}};
  target.manifests = {tree.root() / hardware / "HARDWARE.toml",
                      tree.root() / hardware / model / "MODEL.toml"};
  return target;
}

}  // namespace

std::string_view name(Role role) { return role == Role::kLeaf ? "leaf" : "common"; }

bool is_source(const std::string& file, Vendor vendor) {
  switch (vendor) {
    case Vendor::kCpu:
      return file.ends_with(".cpp");
    case Vendor::kApple:
      return file.ends_with(".metal");
    default:
      return file.ends_with(".cu");
  }
}

bool is_header(const std::string& file) {
  return std::ranges::any_of(std::to_array<std::string_view>({".h", ".hpp", ".cuh", ".inc"}),
                             [&](std::string_view end) { return file.ends_with(end); });
}

Result<Target> resolve(const KernelTree& tree, const std::string& hardware, const std::string& model,
                       const std::string& quant) {
  MET_ASSIGN(Target target, describe(tree, hardware, model, quant));
  MET_ASSIGN(const std::vector<Layer> layers, read_layers(tree, *tree.hardware(hardware), model, quant));
  MET_ASSIGN(const std::vector<Win> wins, check_shadows(tree, layers, target.hardware_manifest->vendor));
  const KernelManifest merged = merge(layers, *target.hardware_manifest);
  target.flags = merged.flags;
  target.common = role_files(layers, Role::kCommon);
  target.leaf = role_files(layers, Role::kLeaf);
  MET_ASSIGN(target.sources, choose_sources(tree, target, merged));
  MET_TRY(check_isa(target, merged));
  MET_TRY(find_dropped(tree, wins, merged, target));
  for (const Layer& layer : layers)
    if (!layer.manifest_path.empty()) target.manifests.push_back(layer.manifest_path);
  return target;
}

}  // namespace met::closure
