#include "server/auth.h"

#include <algorithm>
#include <charconv>
#include <fstream>

#include "core/sha256.h"
#include "server/secret_file.h"

namespace met::server {
namespace {

/// Equal in time that depends on the lengths alone.
bool equal_in_constant_time(std::string_view key, std::string_view offered) {
  unsigned difference = key.size() == offered.size() ? 0 : 1;
  for (std::size_t i = 0; i < key.size(); ++i) {
    const unsigned char other = i < offered.size() ? static_cast<unsigned char>(offered[i]) : 0;
    difference |= static_cast<unsigned>(static_cast<unsigned char>(key[i]) ^ other);
  }
  return difference == 0;
}

/// The key that the head offers: Authorization: Bearer first, then x-api-key.
std::string_view offered_key(const Head& head) {
  const std::string_view authorization = head.header("authorization");
  if (authorization.empty()) return head.header("x-api-key");
  const std::size_t blank = authorization.find(' ');
  if (blank == std::string_view::npos || !equal_ignoring_case(authorization.substr(0, blank), "bearer"))
    return {};
  const std::size_t begin = authorization.find_first_not_of(' ', blank);
  return begin == std::string_view::npos ? std::string_view{} : authorization.substr(begin);
}

api::ApiError unauthorized(std::string message, std::string code) {
  api::ApiError error({ErrorCode::kUnauthenticated, std::move(message), {}});
  error.code = std::move(code);
  return error;
}

Result<std::vector<std::string>> read_keys(const std::string& path) {
  std::ifstream file(path);
  if (!file) return fail(ErrorCode::kIo, "cannot read '" + path + "'", "--auth-tokens-file");
  warn_if_others_read(path, "--auth-tokens-file");
  std::vector<std::string> keys;
  for (std::string line; std::getline(file, line);) {
    line.resize(std::min(line.find('#'), line.size()));
    while (!line.empty() && (line.back() == ' ' || line.back() == '\t' || line.back() == '\r'))
      line.pop_back();
    line.erase(0, std::min(line.find_first_not_of(" \t"), line.size()));
    if (!line.empty()) keys.push_back(line);
  }
  if (keys.empty()) return invalid("--auth-tokens-file", "'" + path + "' holds no key");
  return keys;
}

}  // namespace

Result<Auth> Auth::from(const config::Settings& settings) {
  Auth auth;
  auth.keys_ = settings.auth_token;
  if (!settings.auth_tokens_file.empty()) {
    MET_ASSIGN(const std::vector<std::string> keys, read_keys(settings.auth_tokens_file));
    auth.keys_.insert(auth.keys_.end(), keys.begin(), keys.end());
  }
  if (settings.require_auth && auth.keys_.empty())
    return invalid("--require-auth", "there is no key: give --auth-token or --auth-tokens-file");
  if (!settings.require_auth && !auth.keys_.empty())
    return invalid("--auth-token", "keys are given, but not asked for: add --require-auth");
  for (const std::string& key : auth.keys_)
    if (std::any_of(key.begin(), key.end(), [](char c) { return c <= 0x20 || c >= 0x7F; }))
      return invalid("--auth-token", "a key must consist of visible ASCII characters");
  return auth;
}

std::expected<std::uint64_t, api::ApiError> Auth::tenant(const Head& head) const {
  if (keys_.empty()) return 0;
  const std::string_view offered = offered_key(head);
  if (offered.empty())
    return std::unexpected(
        unauthorized("an API key is missing: send it as 'Authorization: Bearer KEY'", "missing_api_key"));
  bool known = false;
  for (const std::string& key : keys_) known |= equal_in_constant_time(key, offered);
  if (!known) return std::unexpected(unauthorized("the API key is not valid", "invalid_api_key"));
  return tenant_of(offered);
}

std::vector<std::uint64_t> Auth::tenants() const {
  std::vector<std::uint64_t> out{0};
  for (const std::string& key : keys_) out.push_back(tenant_of(key));
  return out;
}

void Auth::hide_keys(std::string& text) const {
  constexpr std::string_view kHidden = "[key]";
  for (const std::string& key : keys_)
    for (std::size_t at = 0; (at = text.find(key, at)) != std::string::npos; at += kHidden.size())
      text.replace(at, key.size(), kHidden);
}

std::uint64_t tenant_of(std::string_view key) {
  const std::string digest = Sha256().add(key).hex();
  std::uint64_t tenant = 0;
  std::from_chars(digest.data(), digest.data() + 16, tenant, 16);
  return std::max<std::uint64_t>(tenant, 1);
}

}  // namespace met::server
