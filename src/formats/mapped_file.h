// A regular file as read-only memory.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "core/error.h"

namespace met::formats {

/// Maps a whole file read-only and unmaps it when destroyed. Move-only; the bytes stay at their address when
/// the object moves. A file that shrinks while it is mapped faults on access, as with any mapping.
class MappedFile {
 public:
  /// Errors: kNotFound, kIo (with the system's reason), kInvalidArgument when it is no regular file. An empty
  /// file gives an empty span.
  static Result<MappedFile> open(const std::string& path);

  MappedFile() = default;
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return bytes_; }

  /// Starts reading the pages of `part` in the background. `part` lies within bytes().
  static void prefetch(std::span<const std::byte> part);
  /// Drops the whole pages inside `part` from this process; a later access reads them again from the file.
  static void release(std::span<const std::byte> part);

 private:
  std::span<const std::byte> bytes_;
};

}  // namespace met::formats
