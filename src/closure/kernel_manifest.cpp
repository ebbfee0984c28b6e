#include "closure/manifest.h"
#include "closure/schema.h"

namespace met::closure {
namespace {

constexpr SchemaRow kRows[] = {
    {"build.extra_nvcc_flags", Kind::kStrings},
    {"build.extra_metal_flags", Kind::kStrings},
    {"build.extra_cxx_flags", Kind::kStrings},
    {"modules.*", Kind::kString},
    {"isa.*", Kind::kStrings},
    {"sources.use", Kind::kStrings},
    {"shadow.*", Kind::kString},
    {"shadow_exempt.*", Kind::kStrings},
};

constexpr SchemaRow kBenchRows[] = {
    {"gates[].name", Kind::kString, true}, {"gates[].benchmark", Kind::kString, true},
    {"gates[].metric", Kind::kString},     {"gates[].min", Kind::kNumber},
    {"gates[].max", Kind::kNumber},        {"gates[].batch", Kind::kInt},
    {"gates[].depth", Kind::kInt},         {"gates[].note", Kind::kString},
};

std::map<std::string, Strings> lists(const json::Value* table) {
  std::map<std::string, Strings> out;
  if (table)
    for (const auto& [key, list] : table->as_object())
      for (const auto& element : list.as_array()) out[key].push_back(element.as_string());
  return out;
}

Result<std::map<std::string, std::string>> words(const json::Value* table, const std::string& name,
                                                 const std::string& key, const std::string& what) {
  std::map<std::string, std::string> out;
  if (table)
    for (const auto& [member, value] : table->as_object()) {
      if (value.as_string().empty()) return invalid(name, "key " + key + "." + member + " gives no " + what);
      out[member] = value.as_string();
    }
  return out;
}

}  // namespace

Result<KernelManifest> read_kernel(const std::filesystem::path& path, const std::string& name) {
  MET_ASSIGN(const json::Value root, read_manifest(path, name, kRows));
  KernelManifest out;
  for (const std::string_view key :
       {"build.extra_cxx_flags", "build.extra_metal_flags", "build.extra_nvcc_flags"})
    for (std::string& flag : strings_at(root, key)) out.flags.push_back(std::move(flag));
  MET_ASSIGN(out.modules, words(root.find("modules"), name, "modules", "module name"));
  MET_ASSIGN(out.shadow, words(root.find("shadow"), name, "shadow", "reason"));
  out.isa = lists(root.find("isa"));
  out.use = strings_at(root, "sources.use");
  out.shadow_exempt = lists(root.find("shadow_exempt"));
  return out;
}

Result<> check_bench(const std::filesystem::path& path, const std::string& name) {
  MET_TRY(read_manifest(path, name, kBenchRows));
  return {};
}

}  // namespace met::closure
