#include "server/outbox.h"

#include <boost/asio/post.hpp>

namespace met::server {

asio::execution_context::id Outbox::id;

void Outbox::add(Sender& sender, const asio::any_io_executor& loop) {
  ready_.push_back(sender);
  if (posted_) return;
  posted_ = true;
  asio::post(loop, [this] { send_all(); });
}

void Outbox::send_all() {
  posted_ = false;
  while (!ready_.empty()) {
    Sender& next = ready_.front();
    ready_.pop_front();
    next.send_now();
  }
}

}  // namespace met::server
