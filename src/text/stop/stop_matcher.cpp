#include "text/stop/stop_matcher.h"

#include <array>
#include <deque>

namespace met::text {

class StopAutomaton {
 public:
  struct Node {
    std::uint32_t depth = 0;  // length of the longest prefix of a stop that ends here
    std::int32_t stop = -1;   // longest stop that ends here
    std::uint32_t stop_bytes = 0;
  };

  explicit StopAutomaton(std::span<const std::string> stops) : nodes_(1) {
    for (const std::string& stop : stops) {
      for (const char c : stop) {
        std::uint16_t& column = columns_[static_cast<unsigned char>(c)];
        if (column == 0) column = static_cast<std::uint16_t>(width_++);
      }
    }
    next_.resize(width_);
    for (std::size_t i = 0; i < stops.size(); ++i) insert(stops[i], static_cast<std::int32_t>(i));
    link();
  }
  const Node& at(std::uint32_t state) const { return nodes_[state]; }
  std::uint32_t step(std::uint32_t state, char c) const {
    return next_[state * width_ + columns_[static_cast<unsigned char>(c)]];
  }

 private:
  void insert(std::string_view stop, std::int32_t index) {
    std::uint32_t state = 0;
    for (const char c : stop) {
      const std::size_t edge = state * width_ + columns_[static_cast<unsigned char>(c)];
      if (next_[edge] == 0) {
        next_[edge] = static_cast<std::uint32_t>(nodes_.size());
        nodes_.push_back({.depth = nodes_[state].depth + 1});
        next_.resize(nodes_.size() * width_);
      }
      state = next_[edge];
    }
    if (nodes_[state].stop >= 0) return;  // given twice: the first counts
    nodes_[state].stop = index;
    nodes_[state].stop_bytes = static_cast<std::uint32_t>(stop.size());
  }

  // Breadth first: a node's failure link is shallower, so its transitions are complete already.
  void link() {
    std::vector<std::uint32_t> failure(nodes_.size(), 0);
    std::deque<std::uint32_t> queue{0};
    while (!queue.empty()) {
      const std::uint32_t state = queue.front();
      queue.pop_front();
      Node& node = nodes_[state];
      if (const Node& back = nodes_[failure[state]]; node.stop < 0 && back.stop >= 0) {
        node.stop = back.stop;
        node.stop_bytes = back.stop_bytes;
      }
      for (std::size_t column = 0; column < width_; ++column) {
        const std::uint32_t back = state == 0 ? 0 : next_[failure[state] * width_ + column];
        std::uint32_t& next = next_[state * width_ + column];
        if (next == 0) {
          next = back;
        } else {
          failure[next] = back;
          queue.push_back(next);
        }
      }
    }
  }

  std::array<std::uint16_t, 256> columns_{};  // byte → column; 0: in no stop
  std::size_t width_ = 1;
  std::vector<Node> nodes_;
  std::vector<std::uint32_t> next_;  // [node][column], complete
};

StopMatcher::StopMatcher() = default;

Result<StopMatcher> StopMatcher::create(std::span<const std::string> stops, bool include_stop) {
  if (stops.size() > kStopsMax)
    return invalid("stop", std::to_string(stops.size()) + " stop strings, at most " +
                               std::to_string(kStopsMax) + " are allowed");
  std::size_t bytes = 0;
  for (const std::string& stop : stops) {
    if (stop.empty()) return invalid("stop", "a stop string must not be empty");
    bytes += stop.size();
  }
  if (bytes > kStopBytesMax)
    return invalid("stop", "stop strings of " + std::to_string(bytes) + " bytes in all, at most " +
                               std::to_string(kStopBytesMax) + " are allowed");
  StopMatcher matcher;
  matcher.include_stop_ = include_stop;
  if (!stops.empty()) matcher.automaton_ = std::make_shared<const StopAutomaton>(stops);
  return matcher;
}

void StopMatcher::push(std::string_view bytes, std::string& out) {
  if (stopped_) return;
  if (!automaton_) {
    out.append(bytes);
    return;
  }
  for (const char c : bytes) {
    held_ += c;
    state_ = automaton_->step(state_, c);
    const StopAutomaton::Node& node = automaton_->at(state_);
    if (node.stop >= 0 && armed_) {
      stopped_ = static_cast<std::size_t>(node.stop);
      const std::size_t kept = include_stop_ ? held_.size() : held_.size() - node.stop_bytes;
      out.append(held_, 0, kept);
      held_.clear();
      return;
    }
  }
  // What precedes the longest prefix of a stop that ends here can never belong to one.
  const std::size_t decided = held_.size() - automaton_->at(state_).depth;
  out.append(held_, 0, decided);
  held_.erase(0, decided);
}

void StopMatcher::flush(std::string& out) {
  out.append(held_);
  held_.clear();
  state_ = 0;
}

}  // namespace met::text
