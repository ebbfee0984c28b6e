#include "scheduler/executor.h"

#include <chrono>
#include <string>
#include <utility>

namespace met::scheduler {
namespace {

std::unexpected<Error> timed_out(std::int64_t timeout_us) {
  return fail(ErrorCode::kDevice,
              "a step was not done after " + std::to_string(timeout_us / 1'000'000) + " s", "step-timeout-s");
}

}  // namespace

void InlineExecutor::start(StepSlot& slot) {
  if (failed_) failed_ = device_.enqueue(slot.plan, slot.batch);
}

Result<> InlineExecutor::settle(StepSlot& slot, std::int64_t timeout_us) {
  const std::int64_t before_us = clock_.now_us();
  if (failed_) failed_ = device_.settle(slot.batch, slot.results);
  slot.done_us = clock_.now_us();
  if (failed_ && slot.done_us - before_us > timeout_us) failed_ = timed_out(timeout_us);
  return failed_;
}

ThreadExecutor::ThreadExecutor(Device& device, const Clock& clock)
    : device_(device), clock_(clock), thread_([this] { run(); }) {}

ThreadExecutor::~ThreadExecutor() { stop(); }

void ThreadExecutor::stop() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    ordered_.notify_one();
  }
  thread_.join();
}

void ThreadExecutor::push(Order order) {
  MET_CHECK(pushed_ - taken_ < kOrdersMax, "too many orders");
  orders_[pushed_++ % kOrdersMax] = order;
  ordered_.notify_one();
}

void ThreadExecutor::start(StepSlot& slot) {
  const std::lock_guard lock(mutex_);
  push({&slot, false});
}

Result<> ThreadExecutor::settle(StepSlot& slot, std::int64_t timeout_us) {
  std::unique_lock lock(mutex_);
  push({&slot, true});
  const std::int64_t mine = ++settles_asked_;
  if (!done_.wait_for(lock, std::chrono::microseconds(timeout_us), [&] { return settles_done_ >= mine; }))
    return timed_out(timeout_us);
  return failed_;
}

void ThreadExecutor::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    ordered_.wait(lock, [&] { return stop_ || taken_ < pushed_; });
    if (taken_ == pushed_) return;
    const Order order = orders_[taken_++ % kOrdersMax];
    if (failed_) {
      lock.unlock();
      Result<> result = order.settle ? device_.settle(order.slot->batch, order.slot->results)
                                     : device_.enqueue(order.slot->plan, order.slot->batch);
      if (order.settle) order.slot->done_us = clock_.now_us();
      lock.lock();
      failed_ = std::move(result);
    }
    if (order.settle) {
      ++settles_done_;
      done_.notify_one();
    }
  }
}

}  // namespace met::scheduler
