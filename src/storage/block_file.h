// A file of equal slots that is read and written past the page cache, many at a time (io_uring). It has no name: when the
// process ends, however it ends, the space is free.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "core/error.h"

namespace met::storage {

/// Used by one thread.
class BlockFile {
 public:
  /// One slot and the memory that it is copied from or to: `slot_bytes` of it, aligned like the slots.
  struct Piece {
    std::int32_t slot = 0;
    std::byte* memory = nullptr;
  };

  /// Takes the whole space in `directory` at once. `slot_bytes` is a multiple of 4096. Errors: kIo, naming the directory.
  static Result<std::unique_ptr<BlockFile>> create(const std::string& directory, std::size_t slot_bytes,
                                                   std::int32_t slots);
  virtual ~BlockFile() = default;

  /// Back when every piece is done. Errors: kIo; what was transferred then is undefined.
  virtual Result<> write(std::span<const Piece> pieces) = 0;
  virtual Result<> read(std::span<const Piece> pieces) = 0;
  /// False where the file system keeps every file in its cache.
  virtual bool direct() const = 0;
};

}  // namespace met::storage
