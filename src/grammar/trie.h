// Texts by their next character.
#pragma once

#include <map>
#include <string_view>

#include "core/utf8.h"
#include "grammar/expr.h"

namespace met::grammar {

struct Trie {
  bool ends = false;
  std::map<char32_t, Trie> next;
};

/// Nothing for a name with another character than those of `plain`.
inline void insert(Trie& root, std::string_view name, const CharSet& plain) {
  Trie* at = &root;
  for (std::string_view rest = name; !rest.empty();) {
    const utf8::Decoded decoded = utf8::decode(rest);
    if (!plain.contains(decoded.code_point)) return;
    at = &at->next[decoded.code_point];
    rest.remove_prefix(decoded.length);
  }
  at->ends = true;
}

}  // namespace met::grammar
