#include "gpu/cpu/task_list.h"

#include <algorithm>
#include <utility>

namespace met::gpu::cpu {
namespace {

constexpr std::size_t kSplitFrom = std::size_t{256} << 10;  // smaller transfers are one thread's

/// This thread's part of [0, bytes), in whole cache lines.
std::pair<std::size_t, std::size_t> part(std::size_t bytes, const MetCpuContext* context) {
  if (bytes < kSplitFrom)
    return context->thread == 0 ? std::pair{std::size_t{0}, bytes} : std::pair{bytes, bytes};
  const std::size_t threads = context->threads;
  const std::size_t each = (bytes / threads + 63) / 64 * 64;
  const std::size_t begin = std::min(bytes, each * context->thread);
  const bool last = context->thread + 1 == context->threads;
  return {begin, last ? bytes : std::min(bytes, begin + each)};
}

}  // namespace

void TaskList::add(MetCpuKernel run, const void* args, std::size_t bytes) {
  first_block_.push_back(blocks_.size());
  blocks_.resize(blocks_.size() + (bytes + sizeof(Block) - 1) / sizeof(Block));
  if (bytes > 0) std::memcpy(&blocks_[first_block_.back()], args, bytes);
  tasks_.push_back({run, nullptr});
}

void TaskList::freeze() {
  for (std::size_t i = 0; i < tasks_.size(); ++i) tasks_[i].args = blocks_.data() + first_block_[i];
}

void copy_task(const void* args, const MetCpuContext* context) {
  const auto& a = *static_cast<const CopyArgs*>(args);
  const auto [begin, end] = part(a.bytes, context);
  if (begin < end)
    std::memcpy(static_cast<std::byte*>(a.to) + begin, static_cast<const std::byte*>(a.from) + begin,
                end - begin);
}

void copy_rows_task(const void* args, const MetCpuContext* context) {
  const auto& a = *static_cast<const CopyRowsArgs*>(args);
  if (a.width == 0) return;
  for (std::size_t row = context->thread; row < a.rows; row += context->threads)
    std::memcpy(a.to + row * a.to_pitch, a.from + row * a.from_pitch, a.width);
}

void fill_task(const void* args, const MetCpuContext* context) {
  const auto& a = *static_cast<const FillArgs*>(args);
  const auto [begin, end] = part(a.bytes, context);
  if (begin < end) std::memset(static_cast<std::byte*>(a.to) + begin, a.byte, end - begin);
}

}  // namespace met::gpu::cpu
