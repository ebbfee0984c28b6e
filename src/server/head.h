// The head of a request, and the checks on it that an ambiguous or hostile client must not get past.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/error.h"

namespace met::server {

/// A request without its body. Header names are compared without case.
struct Head {
  std::string method;
  std::string path;   ///< of the target, not decoded, without the query
  std::string query;  ///< without '?'
  int version = 11;   ///< 10 or 11
  bool keep_alive = true;
  std::vector<std::pair<std::string, std::string>> headers;

  /// Value of the first header of that name, or empty.
  std::string_view header(std::string_view name) const;
  std::size_t count(std::string_view name) const;
};

bool equal_ignoring_case(std::string_view a, std::string_view b);

/// Host, lengths and transfer codings (RFC 9112, sections 3.2, 6.1 and 6.3): refuses what two parties could
/// read differently, and bodies in a content coding (RFC 9110, section 15.5.16). The connection closes after such a refusal.
std::optional<api::ApiError> check_framing(const Head& head);

/// Takes path and query from a request target: origin form, absolute form, or "*". False: none of these.
bool split_target(std::string_view target, Head& head);

/// Percent-decodes one path segment; nothing for a broken escape or a NUL.
std::optional<std::string> decode_segment(std::string_view segment);

/// The pairs of a query, decoded, in order; '+' is a blank. A broken escape stays as it is.
std::vector<std::pair<std::string, std::string>> query_pairs(std::string_view query);

/// A caller's x-request-id when it is at most 128 visible ASCII characters, else a new one ("req_" + 32 hex
/// digits).
std::string request_id(std::string_view wanted);

/// `prefix` + 32 random hex digits.
std::string random_id(std::string_view prefix);

/// Standard phrase of a status.
std::string_view reason_phrase(int status);

}  // namespace met::server
