#include "server/head.h"

#include "core/hex.h"

#include <algorithm>
#include <array>
#include <random>

namespace met::server {
namespace {

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c; }

std::optional<api::ApiError> refuse(int status, std::string message) {
  api::ApiError error;
  error.status = status;
  error.type = api::error_type(status);
  error.message = std::move(message);
  return error;
}

}  // namespace

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  return a.size() == b.size() &&
         std::equal(a.begin(), a.end(), b.begin(), [](char x, char y) { return lower(x) == lower(y); });
}

std::string_view Head::header(std::string_view name) const {
  for (const auto& [key, value] : headers)
    if (equal_ignoring_case(key, name)) return value;
  return {};
}

std::size_t Head::count(std::string_view name) const {
  return static_cast<std::size_t>(std::count_if(headers.begin(), headers.end(), [&](const auto& header) {
    return equal_ignoring_case(header.first, name);
  }));
}

std::optional<api::ApiError> check_framing(const Head& head) {
  const std::size_t hosts = head.count("host");
  if (hosts > 1 || (hosts == 0 && head.version >= 11))
    return refuse(400, "a request needs exactly one Host header");
  for (const auto& [name, value] : head.headers)
    if (value.find_first_of(std::string_view("\0\r\n", 3)) != std::string::npos)
      return refuse(400, "a header value holds a control character");
  if (const auto coding = head.header("content-encoding");
      head.count("content-encoding") > 1 || (!coding.empty() && !equal_ignoring_case(coding, "identity")))
    return refuse(415, "Content-Encoding is not supported: send the body as it is");
  const std::size_t lengths = head.count("content-length");
  const std::size_t codings = head.count("transfer-encoding");
  if (lengths + codings > 1)
    return refuse(400,
                  "the length of the body is ambiguous: several Content-Length or Transfer-Encoding headers");
  if (codings == 1) {
    if (head.version < 11) return refuse(400, "HTTP/1.0 has no Transfer-Encoding");
    if (!equal_ignoring_case(head.header("transfer-encoding"), "chunked"))
      return refuse(400, "the only Transfer-Encoding that is supported is chunked");
  }
  if (lengths == 1) {
    const std::string_view value = head.header("content-length");
    const bool digits = !value.empty() &&
                        std::all_of(value.begin(), value.end(), [](char c) { return c >= '0' && c <= '9'; });
    if (!digits) return refuse(400, "Content-Length is not a number");
  }
  return std::nullopt;
}

bool split_target(std::string_view target, Head& head) {
  if (target.empty()) return false;
  for (const char c : target)
    if (static_cast<unsigned char>(c) <= 0x20 || c == 0x7F) return false;
  if (target == "*") {
    head.path = "*";
    return true;
  }
  if (target.front() != '/') {
    const std::size_t scheme = target.find("://");
    const std::string_view name = target.substr(0, scheme == std::string_view::npos ? 0 : scheme);
    if (!equal_ignoring_case(name, "http") && !equal_ignoring_case(name, "https")) return false;
    target.remove_prefix(scheme + 3);
    const std::size_t slash = target.find_first_of("/?");
    target = slash == std::string_view::npos ? std::string_view("/") : target.substr(slash);
    if (target.front() == '?') return false;
  }
  const std::size_t question = target.find('?');
  head.path = target.substr(0, question);
  head.query = question == std::string_view::npos ? std::string() : std::string(target.substr(question + 1));
  return true;
}

std::optional<std::string> decode_segment(std::string_view segment) {
  std::string out;
  for (std::size_t i = 0; i < segment.size(); ++i) {
    if (segment[i] != '%') {
      out += segment[i];
      continue;
    }
    if (i + 2 >= segment.size()) return std::nullopt;
    const int high = hex::value(segment[i + 1]);
    const int low = hex::value(segment[i + 2]);
    if (high < 0 || low < 0 || high + low == 0) return std::nullopt;
    out += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return out;
}

std::vector<std::pair<std::string, std::string>> query_pairs(std::string_view query) {
  const auto decoded = [](std::string_view text) {
    std::string plain(text);
    std::ranges::replace(plain, '+', ' ');
    return decode_segment(plain).value_or(plain);
  };
  std::vector<std::pair<std::string, std::string>> out;
  while (!query.empty()) {
    const std::size_t end = query.find('&');
    const std::string_view pair = query.substr(0, end);
    query.remove_prefix(end == std::string_view::npos ? query.size() : end + 1);
    const std::size_t equals = pair.find('=');
    if (pair.empty()) continue;
    out.emplace_back(decoded(pair.substr(0, equals)),
                     equals == std::string_view::npos ? "" : decoded(pair.substr(equals + 1)));
  }
  return out;
}

std::string random_id(std::string_view prefix) {
  thread_local std::mt19937_64 random = [] {
    std::random_device device;
    std::seed_seq seed{device(), device(), device(), device()};
    return std::mt19937_64(seed);
  }();
  std::string out(prefix);
  for (int word = 0; word < 2; ++word) hex::append(random(), 16, out);
  return out;
}

std::string request_id(std::string_view wanted) {
  const bool usable = !wanted.empty() && wanted.size() <= 128 &&
                      std::all_of(wanted.begin(), wanted.end(), [](char c) { return c > 0x20 && c < 0x7F; });
  return usable ? std::string(wanted) : random_id("req_");
}

std::string_view reason_phrase(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 204:
      return "No Content";
    case 304:
      return "Not Modified";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 413:
      return "Content Too Large";
    case 415:
      return "Unsupported Media Type";
    case 417:
      return "Expectation Failed";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 501:
      return "Not Implemented";
    case 503:
      return "Service Unavailable";
    case 505:
      return "HTTP Version Not Supported";
    default:
      return status < 500 ? "Error" : "Internal Server Error";
  }
}

}  // namespace met::server
