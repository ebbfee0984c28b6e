#include "kernelc/table_writer.h"

#include <algorithm>
#include <map>
#include <set>

#include "closure/fnv1a.h"
#include "core/cpu_isa.h"

namespace met::kernelc {
namespace {

using closure::Vendor;

/// A C++ string literal.
std::string literal(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (c == '\n')
      out += "\\n";
    else if (static_cast<unsigned char>(c) < 32)
      out += ' ';
    else
      out += c;
  }
  return out + "\"";
}

std::string image_symbol(const Job& job) { return "met_image_" + job.key.substr(0, 16); }

class Writer {
 public:
  Writer(const Plan& plan, const Entries& entries) : plan_(plan), entries_(entries) {}

  void declare_jobs() {
    for (std::size_t i = 0; i < plan_.jobs.size(); ++i) {
      const Job& job = plan_.jobs[i];
      if (job.vendor == Vendor::kCpu) {
        for (const std::string& entry : entries_[i])
          externs_ += "void " + entry + job.suffix + "(const void*, const MetCpuContext*);\n";
      } else {
        externs_ += "extern const std::byte " + image_symbol(job) + "[" +
                    std::to_string(std::filesystem::file_size(job.object)) + "];\n";
      }
    }
  }

  std::string hardware_row(const closure::HardwareManifest& hardware) {
    std::string rows;
    for (const auto& [key, value] : hardware.defaults)
      rows += "    {" + literal(key) + ", " + literal(value) + "},\n";
    return "    {" + literal(hardware.name) + ", " + literal(closure::name(hardware.vendor)) + ", " +
           literal(hardware.vendor == Vendor::kCpu ? plan_.cpu_arch : hardware.arch) + ", " +
           std::to_string(hardware.sm_count) + ", " + array("Default", rows) + "},\n";
  }

  std::string target_row(const PlannedTarget& planned, std::size_t hardware_index) {
    const closure::Target& target = planned.target;
    const closure::ModelManifest& model = *target.model_manifest;
    std::string types, names, absent, dropped, dims, modules, flags;
    for (const auto& row : model.model_types)
      types += "    {" + literal(row.model_type) + ", " + std::to_string(row.hidden_size) + "},\n";
    for (const std::string& name : model.match_names) names += "    " + literal(name) + ",\n";
    for (const auto& row : model.expected_absent) absent += absent_row(row.module, row.kernel, row.reason);
    for (const auto& row : target.dropped) dropped += absent_row(row.module, row.kernel, row.reason);
    for (const auto& [key, value] : model.dims)
      dims += "    {" + literal(key) + ", " + std::to_string(value) + "},\n";
    for (const PlannedModule& module : planned.modules) modules += module_row(module);
    for (const std::string& flag : target.flags) flags += (flags.empty() ? "" : " ") + flag;
    return "    {&kHardwares[" + std::to_string(hardware_index) + "], " + literal(target.model) + ", " +
           literal(target.quant) + ",\n     " + array("ModelType", types) + ", " +
           array("std::string_view", names) + ", " + array("Module", modules) + ",\n     " +
           array("AbsentKernel", absent) + ", " + array("AbsentKernel", dropped) + ",\n     " +
           literal(planned.closure_hash) + ",\n     " + literal(json::write(model.behavior)) + ",\n     " +
           array("Dim", dims) + ", " + literal(planned.compiler) + ", " + literal(flags) + "},\n";
  }

  const std::string& externs() const { return externs_; }
  const std::string& arrays() const { return arrays_; }

 private:
  /// Name of the array with these rows; equal arrays are written once. An empty one is `{}`.
  std::string array(const std::string& type, const std::string& rows) {
    if (rows.empty()) return "{}";
    const auto [it, added] = names_.emplace(type + "\n" + rows, "kArray" + std::to_string(names_.size()));
    if (added) arrays_ += "constexpr " + type + " " + it->second + "[] = {\n" + rows + "};\n";
    return it->second;
  }

  static std::string absent_row(const std::string& module, const std::string& kernel,
                                const std::string& reason) {
    return "    {" + literal(module) + ", " + literal(kernel) + ", " + literal(reason) + "},\n";
  }

  std::string module_row(const PlannedModule& module) {
    const Job& first = plan_.jobs[module.builds.begin()->second];
    if (first.vendor == Vendor::kCpu)
      return "    {" + literal(module.name) + ", " + array("CpuFunction", function_rows(module)) +
             ", {}, {}},\n";
    std::string entries;
    for (const std::string& entry : entries_[module.builds.begin()->second])
      entries += "    " + literal(entry) + ",\n";
    return "    {" + literal(module.name) + ", {}, " + image_symbol(first) + ", " +
           array("std::string_view", entries) + "},\n";
  }

  std::string function_rows(const PlannedModule& module) {
    std::set<std::string> functions;
    for (const auto& [isa, job] : module.builds) functions.insert(entries_[job].begin(), entries_[job].end());
    std::string rows;
    for (const std::string& function : functions) {
      rows += "    {" + literal(function) + ", {";
      for (const CpuIsaRow& isa : kCpuIsas) {
        const auto build = module.builds.find(std::string(isa.name));
        const bool has =
            build != module.builds.end() &&
            std::ranges::find(entries_[build->second], function) != entries_[build->second].end();
        rows +=
            (&isa == kCpuIsas ? "" : ", ") + (has ? function + plan_.jobs[build->second].suffix : "nullptr");
      }
      rows += "}},\n";
    }
    return rows;
  }

  const Plan& plan_;
  const Entries& entries_;
  std::string externs_;
  std::string arrays_;
  std::map<std::string, std::string> names_;
};

}  // namespace

std::string write_table(const closure::KernelTree& tree, const std::vector<std::string>& hardware,
                        const Plan& plan, const Entries& entries) {
  Writer writer(plan, entries);
  writer.declare_jobs();
  const std::set<std::string> selected(hardware.begin(), hardware.end());
  std::map<std::string, std::size_t> index;
  std::string hardware_rows, target_rows;
  for (const std::string& name : selected) {
    index.emplace(name, index.size());
    hardware_rows += writer.hardware_row(tree.hardware(name)->manifest);
  }
  for (const PlannedTarget& target : plan.targets)
    target_rows += writer.target_row(target, index.at(target.target.hardware));
  std::string body = "extern \"C\" {\n" + writer.externs() +
                     "}\n\nnamespace met::kernels {\nnamespace {\n\n" + writer.arrays() +
                     "constexpr Hardware kHardwares[] = {\n" + hardware_rows + "};\n";
  if (!target_rows.empty()) body += "constexpr Target kTargets[] = {\n" + target_rows + "};\n";
  body += "\n}  // namespace\n\nstd::span<const Target> targets() { return " +
          std::string(target_rows.empty() ? "{}" : "kTargets") +
          "; }\nstd::span<const Hardware> hardwares() { return kHardwares; }\n";
  const std::uint64_t hash = closure::fnv1a(body) & ((std::uint64_t{1} << 48) - 1);
  return "// Generated by the kernel build tool.\n#include \"kernels/table.h\"\n\n" + body +
         "std::uint64_t table_hash() { return " + std::to_string(hash) +
         "ULL; }\n\n}  // namespace met::kernels\n";
}

std::string write_images(const Plan& plan) {
  std::string out;
  for (const Job& job : plan.jobs) {
    if (job.vendor == Vendor::kCpu) continue;
    const std::string symbol = image_symbol(job);
    out += ".globl " + symbol + "\n.hidden " + symbol + "\n.balign 64\n" + symbol + ":\n.incbin " +
           literal(job.object.string()) + "\n";
  }
  return out.empty() ? out : ".section .rodata\n" + out + ".section .note.GNU-stack,\"\",@progbits\n";
}

std::vector<std::string> stale_absences(const Plan& plan, const Entries& entries) {
  std::vector<std::string> out;
  for (const PlannedTarget& planned : plan.targets)
    for (const auto& row : planned.target.model_manifest->expected_absent) {
      const auto module = std::ranges::find(planned.modules, row.module, &PlannedModule::name);
      if (module == planned.modules.end()) continue;
      for (const auto& [arch, job] : module->builds)
        if (std::ranges::find(entries[job], row.kernel) != entries[job].end())
          out.push_back(planned.target.name() + ": key expected_absent." + row.module + "." + row.kernel +
                        " names a kernel that is there");
    }
  return out;
}

}  // namespace met::kernelc
