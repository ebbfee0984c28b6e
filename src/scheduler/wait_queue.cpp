#include "scheduler/wait_queue.h"

#include <algorithm>
#include <limits>

namespace met::scheduler {

void WaitQueue::push(std::uint64_t tenant, const Entry& entry) {
  auto of = std::ranges::find(round_, tenant, &Tenant::id);
  if (of == round_.end()) {  // the last of the round: in front of whose turn it is
    of = round_.insert(round_.begin() + static_cast<std::ptrdiff_t>(turn_.at), {.id = tenant});
    if (round_.size() > 1) ++turn_.at;
  }
  of->waiting.insert(std::ranges::upper_bound(of->waiting, entry.order, {}, &Entry::order), entry);
  ++size_;
  stale_ = true;
}

void WaitQueue::replace(SeqIndex seq, SeqIndex heir) {
  for (Tenant& tenant : round_)
    for (Entry& entry : tenant.waiting)
      if (entry.seq == seq) entry.seq = heir;
  stale_ = true;
}

bool WaitQueue::holds(SeqIndex seq) const {
  return std::ranges::any_of(round_, [&](const Tenant& tenant) {
    return std::ranges::find(tenant.waiting, seq, &Entry::seq) != tenant.waiting.end();
  });
}

void WaitQueue::take_out(SeqIndex seq, bool charged) {
  for (std::size_t at = 0; at < round_.size(); ++at) {
    Tenant& tenant = round_[at];
    const auto entry = std::ranges::find(tenant.waiting, seq, &Entry::seq);
    if (entry == tenant.waiting.end()) continue;
    if (charged && round_.size() > 1) tenant.deficit -= entry->cost;
    tenant.waiting.erase(entry);
    if (tenant.waiting.empty()) leave(at);
    --size_;
    stale_ = true;
    return;
  }
}

/// A tenant of which nothing waits keeps neither credit nor debt.
void WaitQueue::leave(std::size_t at) {
  round_.erase(round_.begin() + static_cast<std::ptrdiff_t>(at));
  if (at == turn_.at) turn_.granted = false;
  if (at < turn_.at) --turn_.at;
  if (turn_.at == round_.size()) turn_.at = 0;
  if (round_.size() == 1) {
    round_.front().deficit = 0;
    turn_.granted = false;
  }
}

std::span<const SeqIndex> WaitQueue::first(std::size_t count) {
  if (stale_) make_order();
  return std::span(order_).first(std::min(count, order_.size()));
}

void WaitQueue::make_order() {
  stale_ = false;
  order_.clear();
  const std::size_t most = std::min(size_, kHeadsMax);
  if (round_.size() == 1) {
    for (std::size_t i = 0; i < most; ++i) order_.push_back(round_.front().waiting[i].seq);
    return;
  }
  shares_.clear();
  for (const Tenant& tenant : round_) shares_.push_back({.deficit = tenant.deficit});
  Turn turn = turn_;
  while (order_.size() < most) {
    give_turn(turn);
    if (order_.empty()) {  // whoever is next stays next, whatever comes
      turn_ = turn;
      for (std::size_t at = 0; at < round_.size(); ++at) round_[at].deficit = shares_[at].deficit;
    }
    const Entry& entry = *next_of(turn.at);
    order_.push_back(entry.seq);
    shares_[turn.at].deficit -= entry.cost;
    ++shares_[turn.at].taken;
  }
}

const WaitQueue::Entry* WaitQueue::next_of(std::size_t at) const {
  const std::vector<Entry>& waiting = round_[at].waiting;
  return shares_[at].taken < waiting.size() ? &waiting[shares_[at].taken] : nullptr;
}

/// Moves the turn to a tenant whose deficit covers its next request. There is one that has a next request.
void WaitQueue::give_turn(Turn& turn) {
  for (std::size_t visits = 0;; ++visits) {
    if (visits == round_.size() + 1) {
      skip_rounds();
      visits = 0;
    }
    const Entry* next = next_of(turn.at);
    if (next != nullptr) {
      Share& share = shares_[turn.at];
      if (!turn.granted) share.deficit += kQuantum;
      turn.granted = true;
      if (next->cost <= share.deficit) return;
    }
    turn = {.at = (turn.at + 1) % round_.size(), .granted = false};
  }
}

/// Rounds in which no deficit would cover a request, all at once.
void WaitQueue::skip_rounds() {
  std::int64_t rounds = std::numeric_limits<std::int64_t>::max();
  for (std::size_t at = 0; at < round_.size(); ++at)
    if (const Entry* next = next_of(at))
      rounds = std::min(rounds, (next->cost - shares_[at].deficit + kQuantum - 1) / kQuantum);
  for (std::size_t at = 0; at < round_.size(); ++at)
    if (next_of(at) != nullptr) shares_[at].deficit += std::max<std::int64_t>(rounds - 1, 0) * kQuantum;
}

}  // namespace met::scheduler
