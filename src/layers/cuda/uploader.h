// Host memory to the device through pinned staging, by several threads.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "gpu/backend.h"

namespace met::layers::cuda {

class Uploader {
 public:
  static constexpr std::size_t kPieceBytes = std::size_t{8} << 20U;

  /// What one copy brings: `fill` writes its bytes into staging memory. Called from any thread.
  struct Piece {
    gpu::DevicePtr to;
    std::size_t bytes = 0;  ///< at most kPieceBytes
    std::function<void(std::byte* staging)> fill;
  };

  Uploader(gpu::GpuBackend& device, int threads)
      : device_(device), lanes_(static_cast<std::size_t>(threads)) {}
  ~Uploader();
  Uploader(const Uploader&) = delete;
  Uploader& operator=(const Uploader&) = delete;

  /// Copies all pieces; they are on the device when it returns. `done` hears of each, one call at a time.
  Result<> run(std::span<const Piece> pieces, const std::function<void(std::size_t bytes)>& done);

 private:
  /// What one thread owns: it fills one buffer while the other is on its way.
  struct Lane {
    gpu::Stream stream;
    gpu::PinnedHost staging[2];
    gpu::Event sent[2];
    bool open = false;
  };
  Result<> open(Lane& lane);

  gpu::GpuBackend& device_;
  std::vector<Lane> lanes_;
};

}  // namespace met::layers::cuda
