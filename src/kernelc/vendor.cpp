#include "kernelc/vendor.h"

#include <iterator>

namespace met::kernelc {
namespace {

using closure::Vendor;

std::string first_lines(const std::string& text, int lines) {
  std::size_t end = 0;
  while (lines-- > 0 && end != std::string::npos) end = text.find('\n', end == 0 ? 0 : end + 1);
  return text.substr(0, end);
}

std::string machine_of(const std::string& program) {
  return first_lines(run({{program, "-dumpmachine"}, {}}).output, 1);
}

/// A line that changes with every release of the compiler.
std::string version_of(Vendor vendor, const std::string& program) {
  switch (vendor) {
    case Vendor::kCpu:
      return first_lines(run({{program, "--version"}, {}}).output, 1) + " " + machine_of(program);
    case Vendor::kApple:
      return first_lines(run({{program, "metal", "--version"}, {}}).output, 1);
    default: {
      const std::string text = run({{program, "--version"}, {}}).output;
      const auto release = text.find("release ");
      return "nvcc " + first_lines(release == std::string::npos ? text : text.substr(release), 1);
    }
  }
}

std::string program_of(const Options& options, const closure::HardwareManifest& hardware) {
  switch (hardware.vendor) {
    case Vendor::kCpu:
      return options.cxx;
    case Vendor::kNvidia:
      return options.nvcc.empty() ? "nvcc" : options.nvcc;
    case Vendor::kApple:
      return "xcrun";
    case Vendor::kAmd:
      return "/opt/scale/targets/" + hardware.arch + "/bin/nvcc";
    case Vendor::kHip:
      return "hipcc";
  }
  return {};
}

void append(Strings& to, const Strings& from) { to.insert(to.end(), from.begin(), from.end()); }

}  // namespace

Compiler find_compiler(const Options& options, const closure::HardwareManifest& hardware) {
  Compiler out{hardware.vendor, program_of(options, hardware), {}, false, {}};
  out.present = can_run(out.program);
  if (out.present) out.version = version_of(out.vendor, out.program);
  if (out.vendor == Vendor::kCpu && out.present) out.cpu_arch = cpu_arch_of(machine_of(out.program));
  return out;
}

std::string cpu_arch_of(std::string_view machine) {
  const std::string_view family = machine.substr(0, machine.find('-'));
  if (family == "x86_64") return "x86-64";
  if (family == "arm64") return "aarch64";
  return std::string(family);
}

Strings base_flags(const Options& options, Vendor vendor) {
  switch (vendor) {
    case Vendor::kCpu:
      // No contraction: a result must not depend on what the optimiser fuses; kernels write their own fma.
      return {"-std=c++20",
              "-O3",
              "-fPIC",
              "-fno-exceptions",
              "-fno-rtti",
              "-fvisibility=hidden",
              "-ffp-contract=off",
              "-fno-math-errno",
              "-fno-trapping-math",
              "-Wall",
              "-Wextra",
              "-Werror",
              "-Wno-maybe-uninitialized",
              "-Wno-array-bounds",
              "-Wno-psabi",
              "-Wno-ignored-attributes",
              "-Wno-unused-function"};
    case Vendor::kNvidia: {
      Strings flags{"-std=c++20", "-O3"};
      if (options.strict) append(flags, {"--Werror", "all-warnings"});
      append(flags, options.extra_nvcc_flags);
      return flags;
    }
    case Vendor::kApple:
      return {"-std=metal3.1", "-O3"};
    case Vendor::kAmd:
      return {"-std=c++20", "-O3"};
    case Vendor::kHip:
      return {"-std=c++20", "-O3", "-ffp-contract=off"};
  }
  return {};
}

std::string_view object_extension(Vendor vendor) {
  constexpr std::string_view kNames[] = {".o", ".cubin", ".metallib", ".elf", ".hsaco"};
  return kNames[static_cast<int>(vendor)];
}

std::vector<Command> compile_commands(const Options& options, const Compiler& compiler,
                                      const std::string& arch, const Strings& flags,
                                      const std::string& suffix, const Stage& stage,
                                      const std::filesystem::path& folder,
                                      const std::filesystem::path& object) {
  Strings argv;
  if (compiler.vendor == Vendor::kCpu && !options.launcher.empty()) argv.push_back(options.launcher);
  argv.push_back(compiler.program);
  switch (compiler.vendor) {
    case Vendor::kCpu:
      append(argv, {"-c", "-DMET_KERNEL_SUFFIX=" + suffix});
      break;
    case Vendor::kNvidia:
      append(argv, {"-cubin", "-arch=" + arch});
      break;
    case Vendor::kApple:
      append(argv, {"metal", "-c"});
      break;
    case Vendor::kAmd:
      append(argv, {"--cuda-device-only", "-c", "-arch=" + arch});
      break;
    case Vendor::kHip:
      append(argv, {"--genco", "--offload-arch=" + arch});
      break;
  }
  append(argv, flags);
  for (const std::string& include : stage.include) argv.push_back("-I" + include);
  const std::string output = compiler.vendor == Vendor::kApple ? object.string() + ".air" : object.string();
  append(argv, {stage.source, "-o", output});
  std::vector<Command> out{{argv, folder}};
  if (compiler.vendor == Vendor::kApple)
    out.push_back({{compiler.program, "metallib", output, "-o", object.string()}, folder});
  return out;
}

}  // namespace met::kernelc
