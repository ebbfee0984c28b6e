// Errors as values. Results cross folders; exceptions do not.
#pragma once

#include <cstdlib>
#include <expected>
#include <string>
#include <string_view>
#include <utility>

namespace met {

/// What went wrong, in the few kinds that a caller can act on. The HTTP status follows from the code.
enum class ErrorCode {
  kInvalidArgument,    ///< a value of the caller's is wrong: 400
  kUnauthenticated,    ///< missing or wrong key: 401
  kNotFound,           ///< a named thing does not exist: 404
  kPayloadTooLarge,    ///< a body, file or count over its limit: 413
  kUnsupported,        ///< well-formed, but not something this build or model can do: 400 or a refused start
  kResourceExhausted,  ///< over a limit now, later it may fit: 429
  kUnavailable,        ///< full, loading or draining: 503
  kDataLoss,           ///< a file is corrupt or truncated
  kIo,                 ///< the system refused to read or write
  kDevice,             ///< the device failed; the process ends
  kCancelled,          ///< the caller went away
  kInternal,           ///< a defect of ours: 500
};

/// Name of a code in snake_case, as in logs: "invalid_argument".
std::string_view name(ErrorCode code);

/// One failure. `message` is one clear sentence: lower case, no full stop, names value and limit.
/// `field` is the request field, tensor, flag or file that it is about, or empty.
struct Error {
  ErrorCode code = ErrorCode::kInternal;
  std::string message;
  std::string field;
};

template <class T = void>
using Result = std::expected<T, Error>;

inline std::unexpected<Error> fail(ErrorCode code, std::string message, std::string field = {}) {
  return std::unexpected(Error{code, std::move(message), std::move(field)});
}
inline std::unexpected<Error> invalid(std::string field, std::string message) {
  return fail(ErrorCode::kInvalidArgument, std::move(message), std::move(field));
}
inline std::unexpected<Error> unsupported(std::string field, std::string message) {
  return fail(ErrorCode::kUnsupported, std::move(message), std::move(field));
}
inline std::unexpected<Error> corrupt(std::string field, std::string message) {
  return fail(ErrorCode::kDataLoss, std::move(message), std::move(field));
}

/// Prints the broken invariant to stderr and aborts (rule F6). Never reachable from user input.
[[noreturn]] void defect(const char* file, int line, const char* condition, const std::string& detail);

}  // namespace met

/// An invariant of ours, checked in every build.
#define MET_CHECK(condition, ...)                                              \
  do {                                                                         \
    if (!(condition)) [[unlikely]]                                             \
      ::met::defect(__FILE__, __LINE__, #condition, std::string{__VA_ARGS__}); \
  } while (false)

#define MET_CONCAT_(a, b) a##b
#define MET_CONCAT(a, b) MET_CONCAT_(a, b)

/// Returns the error of `expression` (a Result) from the enclosing function, or goes on.
#define MET_TRY(expression)                                         \
  do {                                                              \
    if (auto met_result_ = (expression); !met_result_) [[unlikely]] \
      return std::unexpected(std::move(met_result_).error());       \
  } while (false)

/// Declares `target` from the value of `expression` (a Result), or returns its error.
#define MET_ASSIGN(target, expression)                                            \
  auto MET_CONCAT(met_result_, __LINE__) = (expression);                          \
  if (!MET_CONCAT(met_result_, __LINE__)) [[unlikely]]                            \
    return std::unexpected(std::move(MET_CONCAT(met_result_, __LINE__)).error()); \
  target = std::move(*MET_CONCAT(met_result_, __LINE__))
