// Keys: who may call, and which tenant a caller is.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/settings.h"
#include "core/error.h"
#include "server/head.h"

namespace met::server {

class Auth {
 public:
  /// Open to everybody: tenant 0.
  Auth() = default;
  /// Reads --require-auth, --auth-token and --auth-tokens-file. Errors: keys without --require-auth and the
  /// reverse, an empty or unreadable file, a key with blanks.
  static Result<Auth> from(const config::Settings& settings);

  bool required() const { return !keys_.empty(); }
  /// The caller's tenant: 1 + the key's index in sorted order; 0 where no key is required. Errors: 401 with
  /// code `missing_api_key` or `invalid_api_key`. Compares every key in full, whatever matches.
  std::expected<std::uint64_t, api::ApiError> tenant(const Head& head) const;

 private:
  std::vector<std::string> keys_;  // sorted, each once
};

}  // namespace met::server
