// What the streams of one loop have ready to send, sent in one go.
#pragma once

#include <boost/asio/execution_context.hpp>
#include <boost/asio/executor.hpp>
#include <boost/intrusive/list.hpp>

#include "server/wake.h"

namespace met::server {

/// All streams that a step woke write their events first, and then all are sent: the loop's code and the kernel's each
/// run many times in a row, which leaves what they need in the caches. A loop has one, a service of its context.
class Outbox final : public asio::execution_context::service {
 public:
  using key_type = Outbox;
  static asio::execution_context::id id;
  explicit Outbox(asio::execution_context& context) : service(context) {}

  using Hook = boost::intrusive::list_base_hook<boost::intrusive::link_mode<boost::intrusive::auto_unlink>>;
  /// One that has something to send; it leaves the outbox where it is destroyed or unlinked.
  class Sender : public Hook {
   public:
    virtual ~Sender() = default;
    /// Sends what can be sent at once. Must destroy no sender.
    virtual void send_now() = 0;
  };

  static Outbox& of(const asio::any_io_executor& loop) {
    return asio::use_service<Outbox>(asio::query(loop, asio::execution::context));
  }
  /// `send_now` is called once, when what runs on the loop now has returned.
  void add(Sender& sender, const asio::any_io_executor& loop);

 private:
  void send_all();
  void shutdown() override { ready_.clear(); }

  boost::intrusive::list<Sender, boost::intrusive::constant_time_size<false>> ready_;
  bool posted_ = false;
};

}  // namespace met::server
