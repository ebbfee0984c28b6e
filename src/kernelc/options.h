// Command line of the build tool. CMake fills it in (cmake/kernels.cmake).
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "core/error.h"

namespace met::kernelc {

using Strings = std::vector<std::string>;

struct Options {
  std::filesystem::path tree;   ///< the folder `kernels`
  std::filesystem::path out;    ///< gets kernel_table.cpp, libmet_kernel_objects.a and stage/
  std::filesystem::path cache;  ///< objects by job key, shared by build folders
  Strings hardware;
  Strings models{"*"};
  Strings quants{"*"};
  Strings implicit;  ///< which of hw, model, quant nobody chose: announced
  std::string cxx = "g++";
  std::string nvcc;  ///< empty: no CUDA toolkit
  std::string ar = "ar";
  std::string launcher;  ///< ccache or empty
  Strings extra_nvcc_flags;
  int jobs = 0;          ///< 0: one a hardware thread
  bool strict = true;    ///< nvcc's warnings are errors
  bool skip = false;     ///< a stub table with the serving defaults and no kernels
  bool list = false;     ///< print what each target resolves to, a line of JSON each, and build nothing
  bool dry_run = false;  ///< print the commands, run none
};

/// Errors: kInvalidArgument naming the flag.
Result<Options> parse_options(std::span<const char* const> arguments);

std::string_view usage();

/// Words of `text` between commas, semicolons and blanks.
Strings split_list(std::string_view text);

}  // namespace met::kernelc
