// The tools of one request, and what their schemas say about a parameter's type.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/json_types.h"
#include "text/tools/tool.h"

namespace met::text {

class ToolSet {
 public:
  explicit ToolSet(std::vector<Tool> tools) : tools_(std::move(tools)) {}

  const Tool* find(std::string_view name) const;
  bool empty() const { return tools_.empty(); }
  std::span<const Tool> all() const { return tools_; }
  /// Types that the tool's schema allows for a parameter; empty where it says none.
  JsonTypes types(std::string_view tool, std::string_view parameter) const;

 private:
  std::vector<Tool> tools_;
};

/// `text` as a JSON text of one of `types`: numbers, booleans in any case, null, arrays and objects where the
/// schema allows them and the text is one, blanks around it aside; else a string with the text as it is. Where a
/// string is allowed only null is not one.
std::string json_of(std::string_view text, JsonTypes types);

/// Appends `bytes` escaped for the inside of a JSON string. Any cut between them is allowed.
void append_escaped(std::string_view bytes, std::string& out);

/// One RFC 8259 number.
bool is_json_number(std::string_view text);

std::string_view trim_blanks(std::string_view text);

}  // namespace met::text
