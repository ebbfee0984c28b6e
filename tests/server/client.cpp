#include "tests/server/client.h"

#include <cerrno>
#include <cstdlib>

namespace met::testing {

std::optional<Answer> Client::answer(bool head_only) {
  for (;;) {
    std::size_t end = 0;
    while ((end = buffer_.find("\r\n\r\n")) == std::string::npos)
      if (!read_some()) return std::nullopt;
    Answer out;
    out.status = std::atoi(buffer_.substr(9, 3).c_str());
    for (std::size_t at = buffer_.find("\r\n") + 2; at < end;) {
      const std::size_t line = buffer_.find("\r\n", at);
      const std::size_t colon = buffer_.find(':', at);
      out.headers.emplace_back(buffer_.substr(at, colon - at), buffer_.substr(colon + 2, line - colon - 2));
      at = line + 2;
    }
    buffer_.erase(0, end + 4);
    if (out.status >= 100 && out.status < 200) continue;
    if (head_only || out.status == 204) return out;
    if (out.header("transfer-encoding") == "chunked") {
      for (;;) {
        std::size_t line = 0;
        while ((line = buffer_.find("\r\n")) == std::string::npos)
          if (!read_some()) return std::nullopt;
        const std::size_t size = std::strtoul(buffer_.c_str(), nullptr, 16);
        while (buffer_.size() < line + 2 + size + 2)
          if (!read_some()) return std::nullopt;
        out.body += buffer_.substr(line + 2, size);
        buffer_.erase(0, line + 2 + size + 2);
        if (size == 0) return out;
      }
    }
    if (const std::string length = out.header("content-length"); !length.empty()) {
      const std::size_t size = std::strtoul(length.c_str(), nullptr, 10);
      while (buffer_.size() < size)
        if (!read_some()) return std::nullopt;
      out.body = buffer_.substr(0, size);
      buffer_.erase(0, size);
      return out;
    }
    while (read_some()) continue;
    out.body = std::move(buffer_);
    buffer_.clear();
    return out;
  }
}

std::string post(std::string_view path, std::string_view body, std::vector<std::string> extra) {
  std::string out = "POST " + std::string(path) +
                    " HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: " +
                    std::to_string(body.size()) + "\r\n";
  for (const std::string& line : extra) out += line + "\r\n";
  return out + "\r\n" + std::string(body);
}

std::string get(std::string_view path, std::vector<std::string> extra) {
  std::string out = "GET " + std::string(path) + " HTTP/1.1\r\nHost: x\r\n";
  for (const std::string& line : extra) out += line + "\r\n";
  return out + "\r\n";
}

}  // namespace met::testing
