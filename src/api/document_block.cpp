// Anthropic's blocks that hold a text beside the conversation's own.
#include "api/document_block.h"

#include "api/fields.h"
#include "api/lower.h"
#include "core/concat.h"

namespace met::api {
namespace {

using V = json::Value;

/// A title line, as far as there is one, then the text.
std::string titled(const json::Value& block, std::string text) {
  std::string out;
  for (const char* name : {"title", "context"}) {
    const V* v = given(block, name);
    if (v != nullptr && v->is_string()) out += v->as_string() + "\n";
  }
  return out + std::move(text);
}

}  // namespace

Result<std::string> document_text(const json::Value& block, const std::string& field,
                                  const std::string& here) {
  const V* source = given(block, "source");
  const bool search = *block.find("type") == V("search_result");
  if (search) {
    const V* content = given(block, "content");
    if (content == nullptr || !content->is_array())
      return invalid(field, here + ".content must be an array of text blocks");
    std::string text;
    if (source != nullptr && source->is_string()) text += source->as_string() + "\n";
    for (const V& part : content->as_array()) {
      MET_ASSIGN(const std::string line, need_text(part, "text", field, here + ".content"));
      text += line;
    }
    return titled(block, std::move(text));
  }
  if (source == nullptr || !source->is_object()) return invalid(field, here + ".source must be an object");
  MET_ASSIGN(const std::string type, need_text(*source, "type", field, here + ".source"));
  if (type == "text") {
    MET_ASSIGN(std::string text, need_text(*source, "data", field, here + ".source"));
    return titled(block, std::move(text));
  }
  const V* content = given(*source, "content");
  if (type == "content" && content != nullptr && content->is_string())
    return titled(block, content->as_string());
  return unsupported(
      field, concat(here, ".source has the type ", shown(V(type)), ", but this model takes only text"));
}

}  // namespace met::api
