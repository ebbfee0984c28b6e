#include "scheduler/channel.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace met::scheduler {

Channel::Channel(int choices, std::int64_t ids_max, std::int64_t ids_room, bool logprobs)
    : ids_max_(ids_max),
      unread_(static_cast<std::size_t>(choices)),
      choices_(static_cast<std::size_t>(choices)) {
  for (Choice& choice : choices_) {
    choice.ids.resize(static_cast<std::size_t>(std::max<std::int64_t>(ids_room, 1)));
    if (logprobs) choice.logprobs.resize(choice.ids.size());
  }
}

bool Channel::is_empty() const {
  return !accepted_ && !progress_ && prompt_.empty() &&
         std::all_of(choices_.begin(), choices_.end(),
                     [](const Choice& choice) { return choice.size == 0 && !choice.terminal; });
}

template <class Write>
void Channel::add(Write write) {
  bool was_empty = false;
  {
    const std::lock_guard lock(mutex_);
    was_empty = is_empty();
    write();
  }
  if (!was_empty) return;
  ready_.notify_one();
  const std::lock_guard lock(wake_mutex_);
  if (wake_) wake_();
}

void Channel::accepted() {
  add([&] { accepted_ = true; });
}

void Channel::progress(std::int64_t computed, std::int64_t cached) {
  add([&] {
    if (!progress_) progress_.emplace();
    progress_->kind = Event::Kind::kProgress;
    progress_->prompt_computed = computed;
    progress_->cached = cached;
  });
}

void Channel::prompt_logprobs(std::vector<PositionLogprobs> positions) {
  add([&] { std::move(positions.begin(), positions.end(), std::back_inserter(prompt_)); });
}

void Channel::token(int choice, TokenId id, const PositionLogprobs* logprobs) {
  const auto index = static_cast<std::size_t>(choice);
  add([&] {
    Choice& to = choices_[index];
    MET_CHECK(to.size < to.ids.size(), "an event channel overflowed");
    const std::size_t at = (to.first + to.size++) % to.ids.size();
    to.ids[at] = id;
    if (!to.logprobs.empty() && logprobs != nullptr) to.logprobs[at] = *logprobs;
    unread_[index].fetch_add(1, std::memory_order_relaxed);
  });
}

void Channel::terminal(int choice, Event event) {
  event.choice = choice;
  add([&] {
    std::optional<Event>& place = choices_[static_cast<std::size_t>(choice)].terminal;
    MET_CHECK(!place, "a second terminal event");
    place = std::move(event);
  });
}

std::optional<Event> Channel::next() {
  if (std::exchange(accepted_, false)) return Event{.kind = Event::Kind::kAccepted};
  if (progress_) return std::exchange(progress_, std::nullopt);
  if (!prompt_.empty())
    return Event{.kind = Event::Kind::kPromptLogprobs, .logprobs = std::exchange(prompt_, {})};
  for (std::size_t step = 0; step < choices_.size(); ++step) {
    const std::size_t index = (cursor_ + step) % choices_.size();
    if (auto event = next_of(static_cast<int>(index))) {
      cursor_ = (index + 1) % choices_.size();
      return event;
    }
  }
  return std::nullopt;
}

std::optional<Event> Channel::next_of(int index) {
  Choice& from = choices_[static_cast<std::size_t>(index)];
  if (from.size == 0) {
    if (!from.terminal) return std::nullopt;
    return std::exchange(from.terminal, std::nullopt);
  }
  Event event{.kind = Event::Kind::kTokens, .choice = index};
  event.ids.reserve(from.size);
  for (std::size_t i = 0; i < from.size; ++i) {
    const std::size_t at = (from.first + i) % from.ids.size();
    event.ids.push_back(from.ids[at]);
    if (!from.logprobs.empty()) event.logprobs.push_back(std::move(from.logprobs[at]));
  }
  from.first = 0;
  from.size = 0;
  return event;
}

std::optional<Event> Channel::poll() {
  std::optional<Event> event;
  bool room = false;
  {
    const std::lock_guard lock(mutex_);
    event = next();
    if (event && event->kind == Event::Kind::kTokens) {
      const std::int64_t before =
          unread_[static_cast<std::size_t>(event->choice)].exchange(0, std::memory_order_relaxed);
      room = before >= ids_max_;
    }
  }
  if (room && room_) room_();
  return event;
}

Event Channel::wait() {
  while (true) {
    if (auto event = poll()) return std::move(*event);
    std::unique_lock lock(mutex_);
    ready_.wait(lock, [&] { return !is_empty(); });
  }
}

void Channel::on_ready(std::function<void()> wake) {
  // The wake stands before the channel is looked at: an event written in between is then told by its writer.
  const std::lock_guard lock(wake_mutex_);
  wake_ = std::move(wake);
  if (!wake_) return;
  bool ready = false;
  {
    const std::lock_guard look(mutex_);
    ready = !is_empty();
  }
  if (ready) wake_();
}

}  // namespace met::scheduler
