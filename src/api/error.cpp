#include "api/error.h"

#include "core/concat.h"

namespace met::api {
namespace {

int status_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
    case ErrorCode::kUnsupported:
      return 400;
    case ErrorCode::kUnauthenticated:
      return 401;
    case ErrorCode::kNotFound:
      return 404;
    case ErrorCode::kPayloadTooLarge:
      return 413;
    case ErrorCode::kResourceExhausted:
      return 429;
    case ErrorCode::kUnavailable:
      return 503;
    case ErrorCode::kDataLoss:
    case ErrorCode::kIo:
    case ErrorCode::kDevice:
    case ErrorCode::kCancelled:
    case ErrorCode::kInternal:
      return 500;
  }
  return 500;
}

json::Value text_or_null(const std::string& text) { return text.empty() ? json::Value() : json::Value(text); }

/// Source: the errors page of Anthropic's API.
std::string_view anthropic_type(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 413:
      return "request_too_large";
    case 429:
      return "rate_limit_error";
    case 503:
      return "overloaded_error";
    default:
      return status < 500 ? "invalid_request_error" : "api_error";
  }
}

json::Value anthropic_body(const ApiError& error, std::string_view request_id) {
  const bool named = error.message.find(error.param) != std::string::npos;
  json::Object inner;
  inner.append("type", anthropic_type(error.status));
  inner.append("message", named ? error.message : concat(error.param, ": ", error.message));
  json::Object out;
  if (!error.code.empty()) inner.append("details", json::Object{{"error_code", error.code}});
  out.append("type", "error");
  out.append("error", std::move(inner));
  out.append("request_id", request_id.empty() ? json::Value() : json::Value(request_id));
  return out;
}

}  // namespace

std::string_view error_type(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 429:
      return "rate_limit_error";
    case 501:
      return "not_supported_error";
    case 503:
      return "service_unavailable_error";
    default:
      return status < 500 ? "invalid_request_error" : "server_error";
  }
}

ApiError::ApiError(const Error& error)
    : status(status_of(error.code)), type(error_type(status)), message(error.message), param(error.field) {
  if (error.code == ErrorCode::kNotFound && error.field == "model") code = "model_not_found";
  // By this Anthropic's clients know to go on without state on the server.
  if (error.code == ErrorCode::kUnsupported && error.field == "thread") code = "thread_unsupported_request";
  if (error.code == ErrorCode::kDevice) code = "device_error";
  if (status == 429 || status == 503) retry_after_s = 1;
}

json::Value error_body(const ApiError& error, Dialect dialect, std::string_view request_id) {
  if (dialect == Dialect::kAnthropic) return anthropic_body(error, request_id);
  json::Object inner;
  inner.append("message", error.message);
  inner.append("type", error.type);
  inner.append("param", text_or_null(error.param));
  inner.append("code", text_or_null(error.code));
  json::Object out;
  out.append("error", std::move(inner));
  return out;
}

}  // namespace met::api
