// A directory for the length of a test.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <string>

namespace met::storage {

class TempDirectory {
 public:
  TempDirectory() : path_(std::filesystem::temp_directory_path() / "met-store-XXXXXX") {
    if (mkdtemp(path_.data()) == nullptr) std::abort();
  }
  ~TempDirectory() { std::filesystem::remove_all(path_); }
  TempDirectory(const TempDirectory&) = delete;
  TempDirectory& operator=(const TempDirectory&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace met::storage
