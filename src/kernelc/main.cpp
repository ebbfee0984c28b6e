#include <iostream>
#include <span>

#include "kernelc/build.h"

int main(int argc, char** argv) {
  const auto options = met::kernelc::parse_options(std::span<const char* const>(argv + 1, argc - 1));
  if (!options) {
    std::cerr << "kernelc: " << options.error().field << ' ' << options.error().message << '\n'
              << met::kernelc::usage();
    return 2;
  }
  if (const auto done = met::kernelc::build(*options, std::cout); !done) {
    const met::Error& error = done.error();
    std::cerr << "kernelc: " << error.field << (error.field.empty() ? "" : ": ") << error.message << '\n';
    return 1;
  }
  return 0;
}
