#include "gpu/arena.h"

#include <algorithm>
#include <bit>
#include <cstdio>

namespace met::gpu {
namespace {

constexpr std::size_t kAlignMax = 256;

}  // namespace

BufferArena::~BufferArena() {
  if (device_ != nullptr) device_->free(base_);
}

std::size_t BufferArena::add(std::string_view name, std::size_t bytes, std::size_t align) {
  MET_CHECK(device_ == nullptr, "a part was added after allocate()");
  MET_CHECK(std::has_single_bit(align) && align <= kAlignMax, "alignment of an arena part");
  MET_CHECK(std::ranges::find(parts_, name, &Part::name) == parts_.end(), std::string(name) + " twice");
  const std::size_t offset = (bytes_ + align - 1) / align * align;
  MET_CHECK(offset >= bytes_ && offset + bytes >= offset, "arena size overflows");
  parts_.push_back({std::string(name), bytes, offset});
  bytes_ = offset + bytes;
  return parts_.size() - 1;
}

Result<> BufferArena::allocate(GpuBackend& device, std::string_view site) {
  MET_CHECK(device_ == nullptr, "an arena is allocated once");
  // The CPU aligns to 64 only, so the base is moved up by hand.
  const std::size_t slack = device.info().unified_memory ? kAlignMax : 0;
  MET_ASSIGN(base_, device.allocate(bytes_ + slack, site));
  device_ = &device;
  return {};
}

DevicePtr BufferArena::at(std::size_t part) const {
  MET_CHECK(device_ != nullptr && part < parts_.size(), "an arena part before allocate()");
  const std::size_t lead = (kAlignMax - base_.value % kAlignMax) % kAlignMax;
  return base_ + lead + parts_[part].offset;
}

DevicePtr BufferArena::at(std::string_view name) const {
  const auto found = std::ranges::find(parts_, name, &Part::name);
  MET_CHECK(found != parts_.end(), "no arena part named " + std::string(name));
  return at(static_cast<std::size_t>(found - parts_.begin()));
}

std::string BufferArena::plan() const {
  std::string table;
  char line[128];
  std::snprintf(line, sizeof line, "%-32s %14s %14s\n", "buffer", "bytes", "offset");
  table += line;
  for (const Part& part : parts_) {
    std::snprintf(line, sizeof line, "%-32.64s %14zu %14zu\n", part.name.c_str(), part.bytes, part.offset);
    table += line;
  }
  std::snprintf(line, sizeof line, "%-32s %14zu\n", "total", bytes_);
  return table + line;
}

}  // namespace met::gpu
