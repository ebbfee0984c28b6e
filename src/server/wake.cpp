#include "server/wake.h"

#include <atomic>
#include <boost/asio/execution_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/intrusive/list.hpp>
#include <optional>
#include <utility>

namespace met::server {

using ListHook = boost::intrusive::list_base_hook<boost::intrusive::link_mode<boost::intrusive::auto_unlink>>;

struct Wake::State : ListHook, std::enable_shared_from_this<State> {
  State(const asio::any_io_executor& executor, Loop& its_loop) : loop(its_loop), timer(executor) {}

  Loop& loop;
  asio::steady_timer timer;  // at or before the deadline; a wait that was told leaves it to the next
  std::optional<Clock::time_point> timer_at;
  Clock::time_point deadline;
  std::optional<Handler> waiter;
  bool set = false;

  std::array<Memory, kMemories> memory;

  std::atomic<bool> told = false;
  std::shared_ptr<State> self;  // while told: of whoever told, then of the loop
  State* next = nullptr;
};

/// What the wakes of one loop share: those that were told of and not woken yet, and those that wait.
class Wake::Loop final : public asio::execution_context::service {
 public:
  using key_type = Loop;
  static asio::execution_context::id id;
  explicit Loop(asio::execution_context& context) : service(context) {}

  void add(const std::shared_ptr<State>& state) {
    if (state->told.exchange(true, std::memory_order_acq_rel)) return;
    state->self = state;
    State* last = told_.load(std::memory_order_relaxed);
    do {
      state->next = last;
    } while (!told_.compare_exchange_weak(last, state.get(), std::memory_order_acq_rel));
    if (last == nullptr) asio::post(state->timer.get_executor(), [this] { wake_all(); });
  }

  boost::intrusive::list<State, boost::intrusive::constant_time_size<false>> waiting;

 private:
  void wake_all() {
    State* first = nullptr;  // they were told of in this order
    for (State* state = told_.exchange(nullptr, std::memory_order_acq_rel); state != nullptr;)
      first = std::exchange(state, std::exchange(state->next, first));
    while (first != nullptr) {
      const std::shared_ptr<State> state = std::move(first->self);
      first = std::exchange(state->next, nullptr);
      if (first != nullptr) read_ahead(*first);
      // Takes over what was written before a notification that found one on its way.
      state->told.exchange(false, std::memory_order_acq_rel);
      state->set = true;
      resume(*state, true);
    }
  }

  static void read_ahead(const State& state) {
    constexpr std::size_t kLine = 64;
    for (const Memory& memory : state.memory)
      for (std::size_t i = 0; i < memory.bytes; i += kLine)
        __builtin_prefetch(static_cast<const char*>(memory.at) + i, /*rw=*/1);
  }

  /// The loop is being destroyed: what still waits goes with it.
  void shutdown() override {
    while (!waiting.empty()) {
      State& state = waiting.front();
      waiting.pop_front();
      const std::optional<Handler> last = std::exchange(state.waiter, std::nullopt);
    }
    for (State* state = told_.exchange(nullptr); state != nullptr;) {
      const std::shared_ptr<State> last = std::move(state->self);
      state = state->next;
    }
  }

  std::atomic<State*> told_ = nullptr;
};

asio::execution_context::id Wake::Loop::id;

Wake::Wake(const asio::any_io_executor& loop)
    : state_(std::make_shared<State>(loop,
                                     asio::use_service<Loop>(asio::query(loop, asio::execution::context)))) {}

std::function<void()> Wake::notifier() const {
  return [state = state_] { tell(state); };
}

void Wake::works_with(const std::array<Memory, kMemories>& memory) { state_->memory = memory; }

void Wake::tell(const std::shared_ptr<State>& state) { state->loop.add(state); }

void Wake::begin(const std::shared_ptr<State>& state, Clock::time_point deadline, Handler handler) {
  state->waiter.emplace(std::move(handler));
  state->loop.waiting.push_back(*state);
  state->deadline = deadline;
  if (state->set) return tell(state);
  if (!state->timer_at || *state->timer_at > deadline) arm(*state, deadline);
}

void Wake::arm(State& state, Clock::time_point at) {
  state.timer_at = at;
  state.timer.expires_at(at);
  state.timer.async_wait([weak = state.weak_from_this()](const boost::system::error_code& code) {
    const std::shared_ptr<State> waited = weak.lock();
    if (code || !waited) return;
    waited->timer_at.reset();
    if (!waited->waiter) return;
    if (Clock::now() < waited->deadline) return arm(*waited, waited->deadline);
    resume(*waited, waited->set);
  });
}

void Wake::resume(State& state, bool notified) {
  if (!state.waiter) return;
  state.set = false;
  state.unlink();
  Handler handler = std::move(*state.waiter);
  state.waiter.reset();
  std::move(handler)(notified);
}

}  // namespace met::server
