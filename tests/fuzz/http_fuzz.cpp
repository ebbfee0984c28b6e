// Any bytes on a connection, in one piece and in two: heads, framing, chunked bodies, pipelined requests. The
// server ends the connection, what it says begins as an answer does, and the first one is not 500.
#include <sys/socket.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "server/head.h"
#include "tests/fuzz/served_fuzz.h"

namespace {

/// What comes up to the end of the connection; which end it has, what kind of requests the bytes held, is the server's
/// to tell.
std::string exchange(const met::testing::FuzzedServer& server, std::string_view bytes, std::size_t cut) {
  const auto client = server.connect();
  client->send(bytes.substr(0, cut));
  client->send(bytes.substr(cut));
  client->half_close();
  std::string out;
  char block[16384];
  for (;;) {
    const ssize_t size = recv(client->socket(), block, sizeof block, 0);
    if (size < 0 && errno == EINTR) continue;  // libFuzzer's clock
    if (size == 0) return out;
    // A reset tells itself to the first call behind it, also to `send`.
    if (size < 0 && errno != EAGAIN) return out;
    if (size < 0) met::testing::found("the connection does not end", out);
    out.append(block, static_cast<std::size_t>(size));
    if (out.contains("event: status\n")) return out;  // /v1/events has no end
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static met::testing::FuzzedServer server;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  met::server::Head head;
  (void)met::server::split_target(bytes, head);
  (void)met::server::query_pairs(bytes);
  const auto segment = met::server::decode_segment(bytes);
  if (segment && segment->size() > size) std::abort();
  if (size == 0) return 0;
  const std::string answers = exchange(server, bytes, data[size - 1] % size);
  const bool good = answers.starts_with("HTTP/1.1 ") && !answers.starts_with("HTTP/1.1 500");
  if (!answers.empty() && !good) met::testing::found("an answer that is none, or 500", answers);
  return 0;
}
