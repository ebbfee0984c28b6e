#include "kernelc/plan.h"

#include <unistd.h>

#include <algorithm>

namespace met::kernelc {
namespace {

using closure::Source;
using closure::Target;
using closure::Vendor;

class Planner {
 public:
  Planner(const closure::KernelTree& tree, const Options& options, const Stager& stager)
      : tree_(tree), options_(options), stager_(stager) {}

  Result<> add(Target target) {
    const auto& hardware = *target.hardware_manifest;
    const auto [it, added] = compilers_.try_emplace(target.hardware);
    if (added) {
      it->second = find_compiler(options_, hardware);
      MET_TRY(check_cpu_arch(it->second, hardware));
    }
    PlannedTarget planned{
        .target = std::move(target), .modules = {}, .closure_hash = {}, .compiler = it->second.version};
    // SCALE translates CUDA by rules of its own: a hash of the sources would attest to nothing.
    if (it->second.vendor != Vendor::kAmd) {
      MET_ASSIGN(planned.closure_hash, closure::closure_hash(tree_, planned.target, it->second.version));
    }
    for (const Source& source : planned.target.sources) {
      MET_ASSIGN(PlannedModule module, add_module(planned.target, source, it->second));
      if (!module.builds.empty()) planned.modules.push_back(std::move(module));
    }
    plan_.targets.push_back(std::move(planned));
    return {};
  }

  Plan take() { return std::move(plan_); }

 private:
  /// The tree of a CPU must know the processors that the compiler is for.
  Result<> check_cpu_arch(const Compiler& compiler, const closure::HardwareManifest& hardware) {
    if (compiler.vendor != Vendor::kCpu || !compiler.present) return {};
    plan_.cpu_arch = compiler.cpu_arch;
    if (hardware.isa.contains(compiler.cpu_arch)) return {};
    return invalid(
        "kernels/" + hardware.name + "/HARDWARE.toml",
        "has no [build.isa." + compiler.cpu_arch + "], which " + compiler.program + " compiles for");
  }

  /// Instruction sets of the compiler's processors; where there is no compiler, those that the tree names first.
  static const closure::IsaFlags& isas(const closure::HardwareManifest& hardware, const Compiler& compiler) {
    const auto it = hardware.isa.find(compiler.cpu_arch);
    return it == hardware.isa.end() ? hardware.isa.begin()->second : it->second;
  }

  Result<PlannedModule> add_module(const Target& target, const Source& source, const Compiler& compiler) {
    PlannedModule module{source.module, {}};
    MET_ASSIGN(const closure::Reach reached, closure::reach(tree_, target, source));
    const auto add = [&](const std::string& arch, const Strings& arch_flags) {
      Strings flags = base_flags(options_, compiler.vendor);
      for (const Strings* more : {&target.flags, &arch_flags})
        flags.insert(flags.end(), more->begin(), more->end());
      module.builds[arch] =
          add_job(target, source, compiler, arch, flags,
                  closure::job_key(reached, *target.model_manifest, arch, flags, compiler.version));
    };
    if (compiler.vendor != Vendor::kCpu)
      add(target.hardware_manifest->arch, {});
    else
      for (const auto& [isa, flags] : isas(*target.hardware_manifest, compiler))
        if (source.isa.empty() || std::ranges::find(source.isa, isa) != source.isa.end()) add(isa, flags);
    return module;
  }

  std::size_t add_job(const Target& target, const Source& source, const Compiler& compiler,
                      const std::string& arch, const Strings& flags, std::string key) {
    const auto [it, added] = by_key_.emplace(key, plan_.jobs.size());
    if (!added) return it->second;
    Job job{.key = std::move(key),
            .source = tree_.label(source.path),
            .arch = arch,
            .suffix = {},
            .vendor = compiler.vendor,
            .compiler_present = compiler.present,
            .object = {},
            .fresh = {},
            .commands = {}};
    if (compiler.vendor == Vendor::kCpu) job.suffix = "_" + arch + "_" + job.key.substr(0, 12);
    const std::string extension(object_extension(compiler.vendor));
    job.object = options_.cache / (job.key.substr(0, 40) + extension);
    job.fresh = options_.cache / (job.key.substr(0, 40) + "." + std::to_string(::getpid()) + extension);
    job.commands = compile_commands(options_, compiler, arch, flags, job.suffix,
                                    stager_.paths(target, source), stager_.root(), job.fresh);
    plan_.jobs.push_back(std::move(job));
    return it->second;
  }

  const closure::KernelTree& tree_;
  const Options& options_;
  const Stager& stager_;
  std::map<std::string, Compiler> compilers_;
  std::map<std::string, std::size_t> by_key_;
  Plan plan_;
};

}  // namespace

Result<Plan> make_plan(const closure::KernelTree& tree, std::vector<Target> targets, const Options& options,
                       const Stager& stager) {
  Planner planner(tree, options, stager);
  for (Target& target : targets) MET_TRY(planner.add(std::move(target)));
  return planner.take();
}

}  // namespace met::kernelc
