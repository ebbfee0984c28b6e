// A kernel tree made for one test, in a folder that goes with it.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "closure/layers.h"

namespace met::closure {

class TempTree {
 public:
  TempTree() {
    static int count = 0;
    folder_ = std::filesystem::temp_directory_path() /
              ("met_tree_" + std::to_string(::getpid()) + "_" + std::to_string(count++));
    std::filesystem::create_directories(root());
  }
  ~TempTree() { std::filesystem::remove_all(folder_); }
  TempTree(const TempTree&) = delete;
  TempTree& operator=(const TempTree&) = delete;

  std::filesystem::path folder() const { return folder_; }
  std::filesystem::path root() const { return folder_ / "kernels"; }

  TempTree& add(const std::string& path, const std::string& text) {
    std::filesystem::create_directories((root() / path).parent_path());
    std::ofstream(root() / path) << text;
    return *this;
  }
  TempTree& remove(const std::string& path) {
    std::filesystem::remove_all(root() / path);
    return *this;
  }

  /// A CUDA hardware with one family model; `parent` may be empty.
  TempTree& hardware(const std::string& name, const std::string& parent = {}) {
    return add(name + "/HARDWARE.toml", "[hardware]\nname = \"" + name +
                                            "\"\nvendor = \"nvidia\"\narch = \"sm_90a\"\n" +
                                            (parent.empty() ? "" : "inherits = \"" + parent + "\"\n"));
  }
  /// A family model whose model type is its folder's name.
  TempTree& model(const std::string& path, const std::string& more = {}) {
    const std::string type = std::filesystem::path(path).filename().string();
    return add(path + "/MODEL.toml",
               "model_types = [{model_type = \"" + type + "\"}]\n[model]\nname = \"m\"\n" + more);
  }

  Result<Target> resolved(const std::string& hardware, const std::string& model, const std::string& quant) {
    auto loaded = KernelTree::load(root());
    if (!loaded) return std::unexpected(loaded.error());
    tree_ = std::move(*loaded);
    return resolve(tree_, hardware, model, quant);
  }
  const KernelTree& tree() const { return tree_; }

 private:
  std::filesystem::path folder_;
  KernelTree tree_;
};

/// "field: message", or "" for success.
template <class T>
std::string said(const Result<T>& result) {
  return result ? "" : result.error().field + ": " + result.error().message;
}

}  // namespace met::closure
