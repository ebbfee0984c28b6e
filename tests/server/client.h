// A raw HTTP client over a blocking socket: sends bytes as they are, reads whole answers.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace met::testing {

struct Answer {
  int status = 0;
  std::vector<std::pair<std::string, std::string>> headers;
  std::string body;  ///< dechunked

  std::string header(std::string_view name) const {
    const auto lower = [](std::string_view s) {
      std::string out(s);
      for (char& c : out)
        if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
      return out;
    };
    for (const auto& [key, value] : headers)
      if (lower(key) == lower(name)) return value;
    return {};
  }
};

class Client {
 public:
  explicit Client(int port, int timeout_s = 5) : fd_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const timeval limit{.tv_sec = timeout_s, .tv_usec = 0};
    setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    const int on = 1;
    setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    connected_ = connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  }
  virtual ~Client() { close(); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  bool connected() const { return connected_; }
  /// For callers that read by themselves.
  int socket() const { return fd_; }
  void send(std::string_view bytes) const {
    while (!bytes.empty()) {
      const ssize_t n = write_bytes(bytes.data(), bytes.size());
      if (n <= 0) return;
      bytes.remove_prefix(static_cast<std::size_t>(n));
    }
  }
  void half_close() const { shutdown(fd_, SHUT_WR); }
  void close() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }
  /// Closes with a reset, as a killed process does.
  void reset() {
    const linger now{.l_onoff = 1, .l_linger = 0};
    setsockopt(fd_, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    close();
  }
  /// Reads until `count` times `what` has arrived. False: the peer closed or was silent.
  bool read_until(std::string_view what, int count = 1) {
    for (;;) {
      int found = 0;
      for (std::size_t at = 0; (at = buffer_.find(what, at)) != std::string::npos; at += what.size()) ++found;
      if (found >= count) return true;
      if (!read_some()) return false;
    }
  }
  /// The next whole answer; nothing when the peer closed or was silent before it was complete. 1xx are
  /// skipped.
  std::optional<Answer> answer(bool head_only = false);
  /// The peer closed (or reset) the connection.
  bool closed() {
    while (read_some()) buffer_.clear();
    return eof_;
  }
  const std::string& buffered() const { return buffer_; }

 protected:
  virtual ssize_t write_bytes(const char* bytes, std::size_t size) const {
    return ::send(fd_, bytes, size, MSG_NOSIGNAL);
  }
  /// 0 at the peer's end.
  virtual ssize_t read_bytes(char* bytes, std::size_t size) { return recv(fd_, bytes, size, 0); }

 private:
  bool read_some() {
    char bytes[16384];
    const ssize_t n = read_bytes(bytes, sizeof bytes);
    if (n == 0 || (n < 0 && errno == ECONNRESET)) eof_ = true;
    if (n <= 0) return false;
    buffer_.append(bytes, static_cast<std::size_t>(n));
    return true;
  }

  int fd_;
  bool connected_ = false;
  bool eof_ = false;
  std::string buffer_;
};

/// "POST path" with a JSON body and the usual headers; `extra` are whole lines.
std::string post(std::string_view path, std::string_view body, std::vector<std::string> extra = {});
std::string get(std::string_view path, std::vector<std::string> extra = {});

}  // namespace met::testing
