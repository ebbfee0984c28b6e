#include "engine/disk_spill.h"

#include <chrono>
#include <utility>

namespace met::engine {

DiskSpill::DiskSpill(std::unique_ptr<storage::BlockFile> file, std::span<std::byte> pool,
                     std::size_t slot_bytes)
    : file_(std::move(file)), pool_(pool), slot_bytes_(slot_bytes), thread_([this] { run(); }) {}

DiskSpill::~DiskSpill() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    changed_.notify_one();
  }
  thread_.join();
}

void DiskSpill::start(const scheduler::SpillMove& move) {
  const std::lock_guard lock(mutex_);
  MET_CHECK(!running_ && !done_, "one move at a time");
  pieces_.clear();
  for (std::size_t i = 0; i < move.host.size(); ++i)
    pieces_.push_back({move.disk[i], pool_.data() + static_cast<std::size_t>(move.host[i]) * slot_bytes_});
  store_ = move.store;
  running_ = true;
  changed_.notify_one();
}

bool DiskSpill::poll(Done& done) {
  const std::lock_guard lock(mutex_);
  if (!done_) return false;
  done = std::move(*done_);
  done_.reset();
  return true;
}

void DiskSpill::on_done(std::function<void()> wake) {
  const std::lock_guard lock(mutex_);
  wake_ = std::move(wake);
}

void DiskSpill::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return stop_ || running_; });
    if (!running_) return;
    lock.unlock();
    const auto began = std::chrono::steady_clock::now();
    Done done;
    done.result = store_ ? file_->write(pieces_) : file_->read(pieces_);
    done.us = std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() - began)
                  .count();
    lock.lock();
    running_ = false;
    done_ = std::move(done);
    if (wake_) wake_();
  }
}

}  // namespace met::engine
