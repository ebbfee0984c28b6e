#include "scheduler/inbox.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace met::scheduler {

Inbox::Inbox(std::size_t requests_max) { posted_.reserve(requests_max); }

void Inbox::post(const std::shared_ptr<Record>& record) {
  if (!std::exchange(record->mail.posted, true)) posted_.push_back(record);
  woken_ = true;
  arrived_.notify_one();
}

bool Inbox::submit(const std::shared_ptr<Record>& record) {
  const std::lock_guard lock(mutex_);
  if (closed_ || drain_deadline_us_) return false;
  record->mail.fresh = true;
  post(record);
  return true;
}

void Inbox::cancel(const std::shared_ptr<Record>& record) {
  const std::lock_guard lock(mutex_);
  if (closed_ || std::exchange(record->mail.cancel, true)) return;
  post(record);
}

void Inbox::stop_at(const std::shared_ptr<Record>& record, const StopAt& stop) {
  const std::lock_guard lock(mutex_);
  if (closed_) return;
  // One stop for each choice: the earliest.
  auto& stops = record->mail.stops;
  const auto same =
      std::find_if(stops.begin(), stops.end(), [&](const StopAt& s) { return s.choice == stop.choice; });
  if (same == stops.end()) {
    stops.push_back(stop);
  } else if (stop.ids < same->ids) {
    *same = stop;
  }
  post(record);
}

void Inbox::wake() {
  const std::lock_guard lock(mutex_);
  woken_ = true;
  arrived_.notify_one();
}

void Inbox::drain(std::int64_t deadline_us) {
  const std::lock_guard lock(mutex_);
  drain_deadline_us_ = std::min(deadline_us, drain_deadline_us_.value_or(deadline_us));
  woken_ = true;
  arrived_.notify_one();
}

bool Inbox::draining() const {
  const std::lock_guard lock(mutex_);
  return drain_deadline_us_.has_value();
}

std::optional<std::int64_t> Inbox::drain_deadline() const {
  const std::lock_guard lock(mutex_);
  return drain_deadline_us_;
}

void Inbox::take(std::vector<Letter>& letters) {
  letters.clear();
  const std::lock_guard lock(mutex_);
  woken_ = false;
  for (std::shared_ptr<Record>& record : posted_) {
    Record::Mail& mail = record->mail;
    Letter letter{
        .record = nullptr, .fresh = mail.fresh, .cancel = mail.cancel, .stops = std::move(mail.stops)};
    mail.posted = false;
    mail.fresh = false;
    mail.stops.clear();
    letter.record = std::move(record);
    letters.push_back(std::move(letter));
  }
  posted_.clear();
}

void Inbox::sleep(std::int64_t timeout_us) {
  std::unique_lock lock(mutex_);
  const auto arrived = [&] { return woken_; };
  if (timeout_us < 0) {
    arrived_.wait(lock, arrived);
  } else {
    arrived_.wait_for(lock, std::chrono::microseconds(timeout_us), arrived);
  }
}

void Inbox::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  posted_.clear();
}

}  // namespace met::scheduler
