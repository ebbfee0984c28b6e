#include "api/items.h"

#include <algorithm>

#include "api/custom_tools.h"
#include "api/fields.h"
#include "api/lower.h"
#include "api/sealed.h"
#include "core/concat.h"
#include "core/utf8.h"

namespace met::api {
namespace {

using V = json::Value;
constexpr std::size_t kMetadataPairsMax = 16;
constexpr std::size_t kMetadataKeyMax = 64;
constexpr std::size_t kMetadataValueMax = 512;

/// Where in the body an item stands.
struct Place {
  std::string_view field;
  std::string path;
  std::unexpected<Error> bad(std::string_view what) const {
    return invalid(std::string(field), concat(path, what));
  }
  Place in(std::string_view name, std::size_t index) const {
    return {field, concat(path, name, "[", index, "]")};
  }
  Result<std::string> text(const V& object, std::string_view name) const {
    return need_text(object, name, field, path);
  }
};

V text_content(bool output, std::string text) {
  if (!output) return json::Object{{"type", "input_text"}, {"text", std::move(text)}};
  json::Object out{{"type", "output_text"}, {"text", std::move(text)}};
  out.append("annotations", json::Array{});
  out.append("logprobs", json::Array{});
  return out;
}

Result<V> read_part(const V& part, bool output, const Place& place) {
  MET_ASSIGN(const std::string type, place.text(part, "type"));
  if (type == "input_text" || type == "output_text" || type == "text") {
    MET_ASSIGN(std::string text, place.text(part, "text"));
    return text_content(output, std::move(text));
  }
  if (type == "refusal") {
    MET_ASSIGN(const std::string text, place.text(part, "refusal"));
    return V(json::Object{{"type", "refusal"}, {"refusal", text}});
  }
  if (type == "input_image" || type == "input_file" || type == "input_audio")
    return unsupported(std::string(place.field),
                       concat(place.path, " has the type \"", type, "\", but this model takes only text"));
  return place.bad(concat(".type must be input_text, output_text or refusal, got ", shown(V(type))));
}

Result<json::Array> read_content(const V& content, bool output, const Place& place) {
  json::Array out;
  if (content.is_string()) {
    out.push_back(text_content(output, content.as_string()));
    return out;
  }
  if (!content.is_array())
    return place.bad(concat(".content must be a string or an array of parts, got ", shown(content)));
  for (std::size_t i = 0; i < content.as_array().size(); ++i) {
    MET_ASSIGN(V part, read_part(content.as_array()[i], output, place.in(".content", i)));
    out.push_back(std::move(part));
  }
  return out;
}

Result<json::Object> read_message(const V& item, const Place& place) {
  MET_ASSIGN(const std::string role, place.text(item, "role"));
  if (role != "user" && role != "assistant" && role != "system" && role != "developer")
    return place.bad(concat(".role must be user, assistant, system or developer, got ", shown(V(role))));
  const V* content = given(item, "content");
  if (content == nullptr) return place.bad(".content is missing");
  MET_ASSIGN(json::Array parts, read_content(*content, role == "assistant", place));
  json::Object out{{"type", "message"}};
  out.append("status", "completed");
  out.append("role", role);
  out.append("content", std::move(parts));
  return out;
}

/// `kind`: function_call, or custom_tool_call, which has its input in the place of arguments.
Result<json::Object> read_call(std::string_view kind, const V& item, const Place& place) {
  json::Object out{{"type", kind}};
  for (const char* name : {"call_id", "name", kind == "function_call" ? "arguments" : "input"}) {
    MET_ASSIGN(std::string text, place.text(item, name));
    out.append(name, std::move(text));
  }
  if (given(item, "namespace") != nullptr) {
    MET_ASSIGN(std::string space, place.text(item, "namespace"));
    out.append("namespace", std::move(space));
  }
  out.append("status", "completed");
  return out;
}

Result<json::Object> read_output(std::string_view kind, const V& item, const Place& place) {
  MET_ASSIGN(std::string call, place.text(item, "call_id"));
  const V* output = given(item, "output");
  if (output == nullptr) return place.bad(".output is missing");
  json::Object out{{"type", kind}, {"call_id", std::move(call)}};
  if (output->is_array()) {
    MET_ASSIGN(json::Array parts, read_content(*output, /*output=*/false, place));
    out.append("output", std::move(parts));
  } else if (output->is_string()) {
    out.append("output", *output);
  } else {
    return place.bad(concat(".output must be a string or an array of parts, got ", shown(*output)));
  }
  out.append("status", "completed");
  return out;
}

Result<json::Object> read_reasoning(const V& item, const Place& place) {
  json::Object out{{"type", "reasoning"}};
  for (const char* name : {"summary", "content"}) {
    const V* list = given(item, name);
    if (list != nullptr && !list->is_array()) return place.bad(concat(".", name, " must be an array"));
    if (list != nullptr)
      for (const V& part : list->as_array()) MET_TRY(place.text(part, "text"));
    out.append(name, list != nullptr ? *list : V(json::Array{}));
  }
  if (const V* kept = given(item, "encrypted_content")) {
    if (!kept->is_string())
      return place.bad(concat(".encrypted_content must be a string, got ", shown(*kept)));
    std::optional<std::string> text =
        unsealed(kept->as_string());  // of another server it is not ours to read
    if (text && out.find("content")->as_array().empty())
      out.set("content",
              json::Array{V(json::Object{{"type", "reasoning_text"}, {"text", std::move(*text)}})});
  }
  out.append("status", "completed");
  return out;
}

/// OpenAI lets the type of a reference be left out.
bool is_reference(const V& item) {
  const V* type = given(item, "type");
  if (type != nullptr) return *type == V("item_reference");
  return item.as_object().size() == 1 && given(item, "id") != nullptr;
}

Result<V> read_item(const V& item, const Place& place, bool references) {
  if (!item.is_object()) return place.bad(concat(" must be an object, got ", shown(item)));
  if (references && is_reference(item)) {
    MET_ASSIGN(std::string id, place.text(item, "id"));
    return V(json::Object{{"type", "item_reference"}, {"id", std::move(id)}});
  }
  const V* type = given(item, "type");
  if (type != nullptr && !type->is_string()) return place.bad(".type must be a string");
  const std::string kind = type != nullptr ? type->as_string() : "message";
  Result<json::Object> read =
      kind == "message"                                                     ? read_message(item, place)
      : kind == "function_call" || kind == "custom_tool_call"               ? read_call(kind, item, place)
      : kind == "function_call_output" || kind == "custom_tool_call_output" ? read_output(kind, item, place)
      : kind == "reasoning"
          ? read_reasoning(item, place)
          : unsupported(std::string(place.field), concat(place.path, " has the type ", shown(V(kind)),
                                                         ", which this server does not know"));
  if (!read) return std::unexpected(std::move(read).error());
  const V* id = given(item, "id");
  if (id == nullptr) return V(std::move(*read));
  if (!id->is_string() || id->as_string().empty()) return place.bad(".id must be a string that is not empty");
  json::Object named{{"id", *id}};
  for (auto& [name, value] : *read) named.append(name, std::move(value));
  return V(std::move(named));
}

// ---- to a chat

std::string joined_text(const V& list) {
  std::string out;
  for (const V& part : list.as_array()) out += part.find("text")->as_string();
  return out;
}

V chat_parts(const V& content) {
  json::Array out;
  for (const V& part : content.as_array()) {
    const V* refusal = part.find("refusal");
    out.push_back(refusal != nullptr ? part : text_part(part.find("text")->as_string()));
  }
  return out;
}

class Conversion {
 public:
  Result<void> add(const V& item, std::string_view field) {
    const std::string& type = item.find("type")->as_string();
    if (type == "message") {
      message(item);
    } else if (type == "reasoning") {
      const V& content = *item.find("content");
      const V& told = content.as_array().empty() ? *item.find("summary") : content;
      if (told.as_array().empty()) return {};
      assistant(/*fresh=*/said_ || called_).append("reasoning_content", joined_text(told));
    } else if (type == "function_call" || type == "custom_tool_call") {
      call(item);
    } else {
      return output(item, field);
    }
    return {};
  }
  json::Array take() { return std::move(out_); }

 private:
  /// The assistant's message that is being put together.
  json::Object& assistant(bool fresh) {
    if (!open_ || fresh) {
      out_.emplace_back(json::Object{{"role", "assistant"}});
      open_ = true;
      said_ = called_ = false;
    }
    return out_.back().as_object();
  }

  void message(const V& item) {
    const V& role = *item.find("role");
    if (role == V("assistant")) {
      assistant(/*fresh=*/said_ || called_).append("content", chat_parts(*item.find("content")));
      said_ = true;
      return;
    }
    open_ = false;
    out_.emplace_back(json::Object{{"role", role}, {"content", chat_parts(*item.find("content"))}});
  }

  void call(const V& item) {
    json::Object& message = assistant(/*fresh=*/false);
    if (!called_) message.append("tool_calls", json::Array{});
    called_ = true;
    const V* input = item.find("input");  // of a custom tool
    V arguments = input != nullptr ? custom_arguments(input->as_string()) : *item.find("arguments");
    const std::string& name = item.find("name")->as_string();
    const V* space = item.find("namespace");
    json::Object function{{"name", space == nullptr ? name : grouped_name(space->as_string(), name)}};
    function.append("arguments", std::move(arguments));
    json::Object call{{"id", *item.find("call_id")}, {"type", "function"}};
    call.append("function", std::move(function));
    message.find("tool_calls")->as_array().emplace_back(std::move(call));
    call_ids_.push_back(item.find("call_id")->as_string());
  }

  Result<void> output(const V& item, std::string_view field) {
    const V& id = *item.find("call_id");
    if (std::ranges::find(call_ids_, id.as_string()) == call_ids_.end())
      return invalid(std::string(field), concat(field, " has a ", item.find("type")->as_string(),
                                                " for the call ", shown(id), ", which is nowhere before it"));
    open_ = false;
    const V& output = *item.find("output");
    V content = output.is_string() ? output : chat_parts(output);
    out_.emplace_back(json::Object{{"role", "tool"}, {"tool_call_id", id}, {"content", std::move(content)}});
    return {};
  }

  json::Array out_;
  std::vector<std::string> call_ids_;
  bool open_ = false;    // the last message is the assistant's and goes on
  bool said_ = false;    // it has content
  bool called_ = false;  // it has calls
};

}  // namespace

Result<json::Array> read_items(const V& items, std::string_view field, bool references) {
  if (!items.is_array())
    return invalid(std::string(field), concat(field, " must be an array of items, got ", shown(items)));
  json::Array out;
  const Place root{field, std::string(field)};
  for (std::size_t i = 0; i < items.as_array().size(); ++i) {
    MET_ASSIGN(V item, read_item(items.as_array()[i], root.in("", i), references));
    out.push_back(std::move(item));
  }
  return out;
}

std::string grouped_name(std::string_view space, std::string_view name) {
  return concat(space, space.ends_with("__") ? "" : "__", name);
}

const std::string* reference_of(const V& item) {
  return *item.find("type") == V("item_reference") ? &item.find("id")->as_string() : nullptr;
}

V user_item(std::string text) {
  json::Object out{{"type", "message"}};
  out.append("status", "completed");
  out.append("role", "user");
  out.append("content", json::Array{text_content(/*output=*/false, std::move(text))});
  return out;
}

std::string_view id_prefix(const V& item) {
  const std::string& type = item.find("type")->as_string();
  if (type == "function_call") return "fc_";
  if (type == "function_call_output") return "fco_";
  if (type == "custom_tool_call") return "ctc_";
  if (type == "custom_tool_call_output") return "ctco_";
  return type == "reasoning" ? "rs_" : "msg_";
}

Result<json::Array> chat_messages(std::span<const Item> items, std::string_view field) {
  Conversion conversion;
  for (const Item& item : items) MET_TRY(conversion.add(*item, field));
  return conversion.take();
}

Result<json::Object> read_metadata(const V& metadata) {
  if (!metadata.is_object())
    return invalid("metadata", concat("metadata must be an object, got ", shown(metadata)));
  if (metadata.as_object().size() > kMetadataPairsMax)
    return invalid("metadata", concat("metadata must hold at most ", kMetadataPairsMax, " pairs, got ",
                                      metadata.as_object().size()));
  for (const auto& [key, value] : metadata.as_object()) {
    if (!value.is_string())
      return invalid("metadata",
                     concat("metadata must hold strings, got ", shown(value), " at ", shown(V(key))));
    if (key.size() > kMetadataKeyMax || value.as_string().size() > kMetadataValueMax)
      return invalid("metadata", concat("metadata must hold keys of at most ", kMetadataKeyMax,
                                        " bytes and values of at most ", kMetadataValueMax));
  }
  return metadata.as_object();
}

}  // namespace met::api
