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
  /// Every tenant that a caller can be.
  std::vector<std::uint64_t> tenants() const;
  /// The caller's tenant, see `tenant_of`; 0 where no key is required. Errors: 401 with code `missing_api_key`
  /// or `invalid_api_key`. Compares every key in full, whatever matches.
  std::expected<std::uint64_t, api::ApiError> tenant(const Head& head) const;

  /// Puts "[key]" where a key stands in a text that is kept.
  void hide_keys(std::string& text) const;

 private:
  std::vector<std::string> keys_;
};

/// The tenant that a key stands for: 64 bits of its SHA-256, never 0. It follows from the key alone, so that
/// what it owns stays its own when other keys come and go; the key cannot be found from it.
std::uint64_t tenant_of(std::string_view key);

}  // namespace met::server
