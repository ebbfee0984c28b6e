// Weights as the CPU's kernels read them, kept in a file between starts (`--repack-cache`).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "core/error.h"
#include "weights/checkpoint.h"

namespace met::layers {

/// One file of packed matrices in the order in which they are asked for. It is named by what it was made of: another
/// checkpoint, instruction set or packing has another name. Each piece carries its hash, so that a damaged file costs
/// a packing and never a weight.
///
///     File   64 bytes: "METPACK2", u64 bytes of all matrices, key, zeros; then each matrix: its bytes, and a u64 XXH3 a
///            piece of kPieceBytes. Little-endian. Written beside its name and renamed when whole.
class RepackCache {
 public:
  static constexpr std::size_t kPieceBytes = std::size_t{4} << 20U;
  using Key = std::array<std::uint64_t, 2>;

  /// Hash of every tensor's name, type, shape and bytes, and of `variant`.
  static Key key_of(const weights::Checkpoint& checkpoint, std::string_view variant, int threads);

  /// Reads the key's file where there is one for `bytes`, else begins it. Errors: kInvalidArgument naming
  /// --repack-cache where the folder cannot be made.
  static Result<std::unique_ptr<RepackCache>> open(const std::string& directory, const Key& key,
                                                   std::size_t bytes, int threads);
  ~RepackCache();
  RepackCache(const RepackCache&) = delete;
  RepackCache& operator=(const RepackCache&) = delete;

  /// Fills `to` with the next matrix. False: nothing is kept, or it is damaged; the caller packs and calls put().
  bool take(std::span<std::byte> to);
  /// The matrix that take() did not have.
  void put(std::span<const std::byte> packed);
  /// All matrices have been asked for: a file that was begun gets its name.
  void finish();

 private:
  enum class State { kOff, kReading, kWriting };
  RepackCache(std::string path, int threads) : path_(std::move(path)), threads_(threads) {}
  bool begin_reading(const Key& key, std::size_t bytes);
  void begin_writing(const Key& key, std::size_t bytes);
  bool append(const void* data, std::size_t bytes);
  /// A file that cannot be trusted, or not be finished, goes.
  void drop(const std::string& path, std::string_view why);

  std::string path_;
  int threads_;
  State state_ = State::kOff;
  int file_ = -1;
  const std::byte* map_ = nullptr;
  std::size_t map_bytes_ = 0;
  std::size_t at_ = 0;
};

}  // namespace met::layers
