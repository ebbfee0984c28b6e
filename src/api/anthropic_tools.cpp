#include "api/anthropic_tools.h"

#include <string>
#include <string_view>
#include <utility>

#include "api/fields.h"
#include "api/lower.h"
#include "core/concat.h"

namespace met::api {
namespace {

using V = json::Value;

/// A tool whose schema Anthropic publishes and whose calls the client carries out, all dated versions alike.
struct ClientTool {
  std::string_view type;  ///< up to the date
  std::string_view description;
  std::string_view schema;
};

constexpr ClientTool kClientTools[] = {
    {"bash_", "Runs a command in a persistent shell session, or restarts the session.",
     R"({"type":"object","properties":{"command":{"type":"string","description":"the command to run"},)"
     R"("restart":{"type":"boolean","description":"true restarts the session instead"}}})"},
    {"text_editor_", "Views, creates and edits text files.",
     R"({"type":"object","properties":{"command":{"type":"string","enum":["view","create","str_replace","insert"]},)"
     R"("path":{"type":"string","description":"file or directory"},)"
     R"("view_range":{"type":"array","items":{"type":"integer"},"description":"of view: first and last line"},)"
     R"("file_text":{"type":"string","description":"of create: the content"},)"
     R"("old_str":{"type":"string","description":"of str_replace: the text to replace"},)"
     R"("new_str":{"type":"string","description":"of str_replace: what replaces it"},)"
     R"("insert_line":{"type":"integer","description":"of insert: the line behind which the text goes"},)"
     R"("insert_text":{"type":"string","description":"of insert: the text"}},"required":["command","path"]})"},
    {"memory_", "Views and changes files of notes that outlast the conversation, below /memories.",
     R"({"type":"object","properties":{"command":{"type":"string","enum":["view","create","str_replace","insert","delete","rename"]},)"
     R"("path":{"type":"string","description":"file or directory below /memories"},)"
     R"("view_range":{"type":"array","items":{"type":"integer"}},"file_text":{"type":"string"},)"
     R"("old_str":{"type":"string"},"new_str":{"type":"string"},"insert_line":{"type":"integer"},)"
     R"("insert_text":{"type":"string"},"old_path":{"type":"string"},"new_path":{"type":"string"}},"required":["command"]})"},
};

/// A type and a date of eight digits.
const ClientTool* client_tool(std::string_view type) {
  for (const ClientTool& tool : kClientTools)
    if (type.starts_with(tool.type) && type.size() == tool.type.size() + 8 &&
        type.find_first_not_of("0123456789", tool.type.size()) == std::string_view::npos)
      return &tool;
  return nullptr;
}

Result<V> function_of(const V& tool, const std::string& here) {
  const V* type = given(tool, "type");
  const ClientTool* defined = type != nullptr && type->is_string() ? client_tool(type->as_string()) : nullptr;
  if (type != nullptr && *type != V("custom") && defined == nullptr)
    return unsupported("tools",
                       concat(here, " has the type ", shown(*type), ", which this server does not run"));
  MET_ASSIGN(const std::string name, need_text(tool, "name", "tools", here));
  json::Object function{{"name", name}};
  if (defined != nullptr) {
    MET_ASSIGN(V schema, json::parse(defined->schema));
    function.append("description", std::string(defined->description));
    function.append("parameters", std::move(schema));
  } else {
    const V* schema = given(tool, "input_schema");
    if (schema == nullptr || !schema->is_object())
      return invalid("tools", concat(here, ".input_schema must be an object"));
    if (const V* description = given(tool, "description")) function.append("description", *description);
    function.append("parameters", *schema);
  }
  if (const V* strict = given(tool, "strict")) function.append("strict", *strict);
  return V(json::Object{{"type", "function"}, {"function", std::move(function)}});
}

}  // namespace

Result<void> lower_tools(const V& body, json::Object& chat) {
  const V* tools = given(body, "tools");
  if (tools == nullptr) return {};
  if (!tools->is_array()) return invalid("tools", concat("tools must be an array, got ", shown(*tools)));
  json::Array out;
  for (std::size_t i = 0; i < tools->as_array().size(); ++i) {
    MET_ASSIGN(V function, function_of(tools->as_array()[i], concat("tools[", i, "]")));
    out.push_back(std::move(function));
  }
  if (!out.empty()) chat.append("tools", std::move(out));
  return {};
}

}  // namespace met::api
