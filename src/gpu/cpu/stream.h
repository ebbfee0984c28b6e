// What a captured CPU stream records, and the transfers that it may record, as kernels.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "gpu/cpu/pool.h"

namespace met::gpu::cpu {

/// A list of tasks with their arguments: filled during capture, then frozen.
class TaskList {
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

struct StreamState;

/// A capture in progress. Work is recorded in the order in which it is enqueued, which is one valid order of
/// all streams that take part.
struct Capture {
  std::unique_ptr<TaskList> list = std::make_unique<TaskList>();
  std::vector<StreamState*> streams;  ///< the first is where the capture began
  std::string broken;                 ///< why it cannot end well; empty: it can
};

struct StreamState {
  std::shared_ptr<Capture> capture;
  std::uint64_t enqueued = 0;  ///< pieces of work of this capture
  std::uint64_t joined = 0;    ///< how many of them the capture's first stream waits for
};

struct EventState {
  bool timing = false;
  bool recorded = false;
  std::chrono::steady_clock::time_point time;
  std::weak_ptr<Capture> capture;  ///< recorded within it: a dependency, not a time
  StreamState* stream = nullptr;
  std::uint64_t behind = 0;  ///< pieces of work of `stream` before the record
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
