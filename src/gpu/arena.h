// Every intermediate tensor of a forward pass, sized once at load, in one allocation whose addresses never
// change, so that a captured graph stays valid.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "gpu/backend.h"

namespace met::gpu {

class BufferArena {
 public:
  /// One named part. `offset` is from the arena's base.
  struct Part {
    std::string name;
    std::size_t bytes = 0;
    std::size_t offset = 0;
  };

  BufferArena() = default;
  ~BufferArena();
  BufferArena(const BufferArena&) = delete;
  BufferArena& operator=(const BufferArena&) = delete;

  /// Adds a part before allocate(); its offset is a multiple of `align`, a power of two of at most 256.
  /// Returns its number. A name twice is a defect.
  std::size_t add(std::string_view name, std::size_t bytes, std::size_t align = 256);

  /// Bytes that allocate() will take.
  std::size_t bytes() const { return bytes_; }

  /// Allocates once, under the given site name. The device outlives the arena.
  Result<> allocate(GpuBackend& device, std::string_view site);

  /// Address of a part after allocate(). An unknown name is a defect.
  DevicePtr at(std::size_t part) const;
  DevicePtr at(std::string_view name) const;

  const std::vector<Part>& parts() const { return parts_; }
  /// The plan as a table: name, bytes, offset.
  std::string plan() const;

 private:
  std::vector<Part> parts_;
  std::size_t bytes_ = 0;
  GpuBackend* device_ = nullptr;
  DevicePtr base_;
};

}  // namespace met::gpu
