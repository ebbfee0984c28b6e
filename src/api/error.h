// Errors as the clients of each API read them.
#pragma once

#include <string>
#include <string_view>

#include "core/error.h"
#include "core/json.h"

namespace met::api {

/// One refusal with its HTTP status. `param` is the request field, `code` a machine-readable reason; both may
/// be empty and are then null on the wire.
struct ApiError {
  int status = 500;
  std::string type = "server_error";
  std::string message;
  std::string param;
  std::string code;
  int retry_after_s = 0;  ///< sent as Retry-After when above 0

  ApiError() = default;
  /// Status and type by the error's code; a missing model becomes `model_not_found`.
  ApiError(const Error& error);  // NOLINT(google-explicit-constructor): every Error has one wire form
};

/// Reason phrase type of a status: 400 "invalid_request_error", 401 "authentication_error", ….
std::string_view error_type(int status);

/// Whose clients read an answer.
enum class Dialect { kOpenAi, kAnthropic };

/// OpenAI: {"error": {"message", "type", "param", "code"}}. Anthropic: {"type": "error", "error": {"type",
/// "message", "details": {"error_code"} where there is one}, "request_id"}; a field that the message does not name is put before it.
json::Value error_body(const ApiError& error, Dialect dialect = Dialect::kOpenAi,
                       std::string_view request_id = {});

}  // namespace met::api
