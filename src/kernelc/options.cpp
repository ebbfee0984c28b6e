#include "kernelc/options.h"

#include <charconv>

namespace met::kernelc {
namespace {

Result<> set(Options& o, std::string_view flag, std::string value) {
  if (flag == "--tree")
    o.tree = std::filesystem::absolute(value).lexically_normal();
  else if (flag == "--out")
    o.out = std::filesystem::absolute(value).lexically_normal();
  else if (flag == "--cache")
    o.cache = std::filesystem::absolute(value).lexically_normal();
  else if (flag == "--hw")
    o.hardware = split_list(value);
  else if (flag == "--model")
    o.models = split_list(value);
  else if (flag == "--quant")
    o.quants = split_list(value);
  else if (flag == "--implicit")
    o.implicit = split_list(value);
  else if (flag == "--cxx")
    o.cxx = std::move(value);
  else if (flag == "--nvcc")
    o.nvcc = std::move(value);
  else if (flag == "--ar")
    o.ar = std::move(value);
  else if (flag == "--launcher")
    o.launcher = std::move(value);
  else if (flag == "--extra-nvcc-flags")
    o.extra_nvcc_flags = split_list(value);
  else if (flag == "--jobs" || flag == "-j") {
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), o.jobs);
    if (error != std::errc() || end != value.data() + value.size() || o.jobs < 0)
      return invalid(std::string(flag), "must be a count, not \"" + value + "\"");
  } else {
    return invalid(std::string(flag), "is no flag of the build tool");
  }
  return {};
}

}  // namespace

std::string_view usage() {
  return "usage: kernelc --tree kernels --out DIR --cache DIR --hw LIST [--model LIST] [--quant LIST]\n"
         "               [--cxx PROGRAM] [--nvcc PROGRAM] [--ar PROGRAM] [--launcher PROGRAM] [--jobs N]\n"
         "               [--implicit LIST] [--extra-nvcc-flags LIST] [--no-strict] [--skip] [--list] "
         "[--dry-run]\n";
}

Strings split_list(std::string_view text) {
  Strings out;
  while (!text.empty()) {
    const auto end = text.find_first_of(",; ");
    if (end != 0) out.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
  return out;
}

Result<Options> parse_options(std::span<const char* const> arguments) {
  Options o;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string_view flag = arguments[i];
    if (flag == "--skip")
      o.skip = true;
    else if (flag == "--list")
      o.list = true;
    else if (flag == "--dry-run")
      o.dry_run = true;
    else if (flag == "--no-strict")
      o.strict = false;
    else if (i + 1 == arguments.size())
      return invalid(std::string(flag), "is no flag of the build tool, or lacks its value");
    else
      MET_TRY(set(o, flag, arguments[++i]));
  }
  for (const auto& [flag, empty] :
       {std::pair("--tree", o.tree.empty()), std::pair("--out", o.out.empty()),
        std::pair("--cache", o.cache.empty()), std::pair("--hw", o.hardware.empty())})
    if (empty) return invalid(flag, "is missing");
  return o;
}

}  // namespace met::kernelc
