// Jinja templates as chat templates use them: the language of jinja2 3.1 in an immutable sandbox with
// trim_blocks, lstrip_blocks and loop controls, plus the helpers of Hugging Face's chat templates (tojson,
// raise_exception, strftime_now, generation blocks). docs/chat-templates.md lists the language.
#pragma once

#include <ctime>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/json.h"
#include "text/jinja/limits.h"
#include "text/jinja/value.h"

namespace met::text::jinja {

/// Rendered text and the bytes of it that came from untrusted variables: sorted, disjoint, not touching.
struct Rendered {
  std::string text;
  std::vector<ByteRange> untrusted;
};

/// One variable of a render. Strings inside an untrusted value are marked, keys included.
struct Variable {
  std::string name;
  const json::Value* value = nullptr;
  bool untrusted = false;
};

/// A failed compile or render: the error to answer with, and whether the template itself refused the input
/// (raise_exception) rather than the engine.
struct RenderError {
  FailureKind kind = FailureKind::kRuntime;
  std::string message;  ///< the bare message
  int line = 0;
  int column = 0;
  /// kInvalidArgument on "template": "line 3, column 7: ..."; the bare message for raise_exception.
  Error error() const;
};

/// A compiled template. Immutable: any number of threads may render it at once.
class Template {
 public:
  static std::expected<std::shared_ptr<const Template>, RenderError> compile(std::string_view source,
                                                                             const Limits& limits = {});
  ~Template();

  /// Renders with `variables`; `now` is what strftime_now shows.
  std::expected<Rendered, RenderError> render(const std::vector<Variable>& variables,
                                              const std::tm& now) const;

  /// Filters, tests and functions that do not exist, with line and column: an error if a render meets them.
  const std::vector<std::string>& warnings() const { return warnings_; }
  /// Whether the template reads a variable of this name anywhere.
  bool mentions(std::string_view name) const;

 private:
  struct Compiled;
  Template();
  std::unique_ptr<Compiled> compiled_;
  Limits limits_;
  std::vector<std::string> warnings_;
};

}  // namespace met::text::jinja
