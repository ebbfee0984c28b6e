#include "storage/store_thread.h"

#include <chrono>

#include "core/log.h"

namespace met::storage {
namespace {

constexpr auto kFlush = std::chrono::seconds(1);   // how long a commit may wait for the disk
constexpr auto kExpiry = std::chrono::minutes(1);  // how often an idle store looks for what has expired

}  // namespace

StoreThread::StoreThread(std::unique_ptr<ObjectStore> store)
    : store_(std::move(store)), thread_([this] { loop(); }) {}

void StoreThread::post(Work work, Done done) {
  {
    const std::lock_guard lock(mutex_);
    if (!stop_) {
      jobs_.push_back({.work = std::move(work), .done = std::move(done), .error = std::nullopt});
      posted_.notify_one();
      return;
    }
  }
  const Error closed{ErrorCode::kUnavailable, "the server is shutting down", {}};
  done(&closed);
}

void StoreThread::stop() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    posted_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
  store_.reset();
}

void StoreThread::loop() {
  using Clock = std::chrono::steady_clock;
  std::optional<Clock::time_point> flush_at;
  for (;;) {
    if (flush_at && Clock::now() >= *flush_at) {
      if (const auto flushed = store_->flush(); !flushed) log::error(flushed.error().message);
      flush_at.reset();
    }
    std::vector<Job> jobs;
    {
      std::unique_lock lock(mutex_);
      const auto until = flush_at.value_or(Clock::now() + kExpiry);
      posted_.wait_until(lock, until, [this] { return stop_ || !jobs_.empty(); });
      if (stop_ && jobs_.empty()) return;
      jobs.swap(jobs_);
    }
    if (jobs.empty() && flush_at) continue;
    run(jobs);
    if (!flush_at) flush_at = Clock::now() + kFlush;
  }
}

void StoreThread::run(std::vector<Job>& jobs) {
  store_->begin();
  for (auto job = jobs.begin(); job != jobs.end(); ++job) {
    store_->begin_operation();
    const bool keep = job->work(*store_);
    ObjectStore::Ended ended = store_->end_operation(keep);
    if (ended.lost && ended.error)
      for (auto before = jobs.begin(); before != job; ++before)
        if (!before->error) before->error = ended.error;
    job->error = std::move(ended.error);
  }
  if (const auto committed = store_->commit(); !committed)
    for (Job& job : jobs)
      if (!job.error) job.error = committed.error();
  for (Job& job : jobs) job.done(job.error ? &*job.error : nullptr);
}

}  // namespace met::storage
