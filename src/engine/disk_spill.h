// The disk behind the host's swap pool (rule S25): a thread that moves blocks between the pool's memory and a file.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "scheduler/spill.h"
#include "storage/block_file.h"

namespace met::engine {

/// `pool` is the host pool's memory, in slots of `slot_bytes`; it outlives the spill.
class DiskSpill final : public scheduler::Spill {
 public:
  DiskSpill(std::unique_ptr<storage::BlockFile> file, std::span<std::byte> pool, std::size_t slot_bytes);
  /// Waits for the move that runs.
  ~DiskSpill() override;
  DiskSpill(const DiskSpill&) = delete;
  DiskSpill& operator=(const DiskSpill&) = delete;

  void start(const scheduler::SpillMove& move) override;
  bool poll(Done& done) override;
  void on_done(std::function<void()> wake) override;

 private:
  void run();

  std::unique_ptr<storage::BlockFile> file_;  ///< the thread's alone
  std::span<std::byte> pool_;
  std::size_t slot_bytes_;

  std::mutex
      mutex_;  ///< guards what follows; held while the wake runs, so that replacing it waits for the call
  std::condition_variable changed_;
  std::vector<storage::BlockFile::Piece> pieces_;  ///< of the move; the thread's while it runs
  bool store_ = false;
  bool running_ = false;
  std::optional<Done> done_;
  std::function<void()> wake_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace met::engine
