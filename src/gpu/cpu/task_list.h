// What a capture on the CPU records, and the transfers that it may record, as tasks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "gpu/cpu/pool.h"
#include "gpu/drained.h"

namespace met::gpu::cpu {

/// A list of tasks with their arguments: filled during capture, then frozen.
class TaskList final : public Recording {
 public:
  void add(MetCpuKernel run, const void* args, std::size_t bytes);
  /// Fixes the addresses of the arguments; nothing may be added afterwards.
  void freeze();
  std::span<const Task> tasks() const { return tasks_; }

 private:
  struct alignas(64) Block {
    std::byte bytes[64];
  };
  std::vector<Task> tasks_;
  std::vector<std::size_t> first_block_;  // of each task's arguments
  std::vector<Block> blocks_;
};

struct CopyArgs {
  void* to;
  const void* from;
  std::size_t bytes;
};
struct CopyRowsArgs {
  std::byte* to;
  std::size_t to_pitch;
  const std::byte* from;
  std::size_t from_pitch;
  std::size_t width;
  std::size_t rows;
};
struct FillArgs {
  void* to;
  std::size_t bytes;
  std::uint8_t byte;
};
void copy_task(const void* args, const MetCpuContext* context);
void copy_rows_task(const void* args, const MetCpuContext* context);
void fill_task(const void* args, const MetCpuContext* context);

}  // namespace met::gpu::cpu
