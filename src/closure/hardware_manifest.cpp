#include <algorithm>

#include "closure/manifest.h"
#include "closure/schema.h"
#include "core/choices.h"
#include "core/cpu_isa.h"

namespace met::closure {
namespace {

constexpr SchemaRow kRows[] = {
    {"hardware.name", Kind::kString, true},
    {"hardware.vendor", Kind::kString, true},
    {"hardware.arch", Kind::kString},
    {"hardware.compute_capability", Kind::kString},
    {"hardware.sm_count", Kind::kInt},
    {"hardware.inherits", Kind::kString},
    {"hardware.memory_bandwidth_gbps", Kind::kNumber},
    {"hardware.memory_type", Kind::kString},
    {"hardware.memory_gb", Kind::kNumber},
    {"build.extra_nvcc_flags", Kind::kStrings},
    {"build.extra_metal_flags", Kind::kStrings},
    {"build.extra_cxx_flags", Kind::kStrings},
    {"build.isa.*.*", Kind::kStrings},
    {"defaults.block_size", Kind::kInt},
    {"defaults.max_batch_size", Kind::kInt},
    {"defaults.max_prefill_tokens", Kind::kInt},
    {"defaults.mixed_prefill_tokens", Kind::kInt},
    {"defaults.kv_cache_dtype", Kind::kString},
    {"defaults.scheduler_config", Kind::kString},
    {"defaults.prefill_varlen_batch", Kind::kString},
    {"defaults.prefill_codispatch", Kind::kString},
    {"defaults.prefill_first_chunk", Kind::kString},
    {"benchmarks.limits.thermal.*", Kind::kNumber},
    {"benchmarks.limits.memory.*", Kind::kNumber},
    {"benchmarks.limits.timing.*", Kind::kNumber},
    {"benchmarks.limits.equivalence.*", Kind::kNumber},
    {"tensor_core_policy.require[].ops", Kind::kStrings, true},
    {"tensor_core_policy.require[].modes", Kind::kStrings},
    {"tensor_core_policy.require[].min_rows", Kind::kInt},
    {"tensor_core_policy.require[].weights", Kind::kStrings},
    {"tensor_core_policy.exempt[].ops", Kind::kStrings, true},
    {"tensor_core_policy.exempt[].modes", Kind::kStrings},
    {"tensor_core_policy.exempt[].min_rows", Kind::kInt},
    {"tensor_core_policy.exempt[].max_rows", Kind::kInt},
    {"tensor_core_policy.exempt[].kernels", Kind::kStrings},
    {"tensor_core_policy.exempt[].kind", Kind::kString, true},
    {"tensor_core_policy.exempt[].reason", Kind::kString, true},
};

constexpr DefaultRow kDefaults[] = {
    {"block_size", "integer"},
    {"max_batch_size", "integer"},
    {"max_prefill_tokens", "integer"},
    {"mixed_prefill_tokens", "integer"},
    {"kv_cache_dtype", "auto|f16|bf16|fp8"},
    {"scheduler_config", "sync|async"},
    {"prefill_varlen_batch", "on|off"},
    {"prefill_codispatch", "on|off"},
    {"prefill_first_chunk", "on|off"},
};

constexpr std::pair<std::string_view, Vendor> kVendors[] = {
    {"cpu", Vendor::kCpu},     {"nvidia", Vendor::kNvidia}, {"cuda", Vendor::kNvidia},
    {"apple", Vendor::kApple}, {"metal", Vendor::kApple},   {"amd", Vendor::kAmd},
    {"rocm", Vendor::kAmd},    {"scale", Vendor::kAmd},     {"hip", Vendor::kHip},
};

Result<> read_defaults(const json::Value& table, const std::string& name, HardwareManifest& out) {
  for (const DefaultRow& row : kDefaults) {
    const json::Value* value = table.find(row.key);
    if (value == nullptr) {
      out.unstated_defaults.emplace_back(row.key);
    } else if (value->is_int()) {
      if (value->as_int() < 0) return invalid(name, "key defaults." + std::string(row.key) + " is negative");
      out.defaults.emplace_back(row.key, std::to_string(value->as_int()));
    } else if (!is_choice(row.what, value->as_string())) {
      return invalid(name, "key defaults." + std::string(row.key) + " is \"" + value->as_string() +
                               "\", not one of " + std::string(row.what));
    } else {
      out.defaults.emplace_back(row.key, value->as_string());
    }
  }
  return {};
}

Result<> read_isa(const json::Value& table, const std::string& name, HardwareManifest& out) {
  for (const auto& [arch, sets] : table.as_object()) {
    if (std::ranges::find(kCpuArchs, arch) == std::end(kCpuArchs))
      return invalid(name, "unknown key build.isa." + arch + ": architectures are x86-64 and aarch64");
    for (const auto& [isa, flags] : sets.as_object()) {
      if (!is_isa_of(arch, isa))
        return invalid(name, "unknown key build.isa." + arch + "." + isa + ": instruction sets of " + arch +
                                 " are " + isas_of(arch));
      Strings list;
      for (const auto& flag : flags.as_array()) list.push_back(flag.as_string());
      out.isa[arch].emplace_back(isa, std::move(list));
    }
  }
  return {};
}

}  // namespace

std::vector<DefaultRow> default_rows() { return {std::begin(kDefaults), std::end(kDefaults)}; }

std::string_view name(Vendor vendor) {
  constexpr std::string_view kNames[] = {"cpu", "nvidia", "apple", "amd", "hip"};
  return kNames[static_cast<int>(vendor)];
}

bool is_plain_name(std::string_view name) {
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  };
  return !name.empty() && name.front() != '.' && name.front() != '-' && std::ranges::all_of(name, plain);
}

Result<HardwareManifest> read_hardware(const std::filesystem::path& path, const std::string& name) {
  MET_ASSIGN(const json::Value root, read_manifest(path, name, kRows));
  HardwareManifest out;
  out.name = string_at(root, "hardware.name");
  const std::string vendor = string_at(root, "hardware.vendor");
  const auto* row =
      std::ranges::find(kVendors, std::string_view(vendor), &std::pair<std::string_view, Vendor>::first);
  if (row == std::end(kVendors))
    return invalid(name, "key hardware.vendor is \"" + vendor + "\", not cpu, nvidia, apple, amd or hip");
  out.vendor = row->second;
  out.arch = string_at(root, "hardware.arch");
  out.compute_capability = string_at(root, "hardware.compute_capability");
  out.sm_count = int_at(root, "hardware.sm_count");
  if (out.sm_count < 0) return invalid(name, "key hardware.sm_count is negative");
  out.inherits = string_at(root, "hardware.inherits");
  const std::string_view flags = out.vendor == Vendor::kCpu     ? "build.extra_cxx_flags"
                                 : out.vendor == Vendor::kApple ? "build.extra_metal_flags"
                                                                : "build.extra_nvcc_flags";
  for (const std::string_view key :
       {"build.extra_cxx_flags", "build.extra_metal_flags", "build.extra_nvcc_flags"})
    if (key != flags && at(root, key))
      return invalid(name, "key " + std::string(key) + " does not belong to vendor " + vendor + ": use " +
                               std::string(flags));
  out.flags = strings_at(root, flags);
  if (const json::Value* isa = at(root, "build.isa")) MET_TRY(read_isa(*isa, name, out));
  if (out.vendor == Vendor::kCpu && !out.arch.empty())
    return invalid(
        name, "key hardware.arch does not belong to vendor cpu: [build.isa.<arch>] names its architectures");
  if (const json::Value* table = root.find("defaults")) MET_TRY(read_defaults(*table, name, out));
  return out;
}

}  // namespace met::closure
