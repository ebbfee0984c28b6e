// What a text must be, as a request says it. Plain values: no grammar engine is needed to read or write them.
#pragma once

#include <string>

#include "core/json.h"

namespace met::grammar {

enum class Kind {
  kJsonObject,     ///< any JSON object; `value` is not used
  kJsonSchema,     ///< `value`: a JSON Schema, 2020-12
  kRegex,          ///< `value`: a string; the whole text matches
  kChoice,         ///< `value`: an array of strings; the text is one of them
  kEbnf,           ///< `value`: a string; rules `name ::= …`, the first is `root`
  kStructuralTag,  ///< `value`: {"type": "structural_tag", "format": …}, see docs/grammar.md
};

struct Spec {
  Kind kind = Kind::kJsonObject;
  json::Value value;
  std::string field;  ///< of the request that it came from; errors name it

  friend bool operator==(const Spec&, const Spec&) = default;
};

/// Where in the output the grammar begins. Before it every token may follow, the end ids too.
struct Start {
  enum class When {
    kAtOnce,
    kAfterClose,    ///< the output begins inside a thought: behind the first `close`
    kAfterThought,  ///< behind `close` if the output begins with `open`, else at once
  };
  When when = When::kAtOnce;
  std::string open;   ///< "<think>"
  std::string close;  ///< "</think>"

  friend bool operator==(const Start&, const Start&) = default;
};

}  // namespace met::grammar
