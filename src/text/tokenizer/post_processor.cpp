#include "text/tokenizer/post_processor.h"

#include "text/tokenizer/declaration.h"
#include "text/tokenizer/piece_table.h"

namespace met::text {
namespace {

Result<TokenId> checked(const json::Value& id) {
  if (!id.is_int() || id.as_int() < 0 || id.as_int() >= static_cast<std::int64_t>(PieceTable::kIdsMax))
    return invalid("post_processor", "expected a token id, found " + std::string(id.type_name()));
  return static_cast<TokenId>(id.as_int());
}

// ["[CLS]", 101]
Result<TokenId> pair_id(const json::Value& declaration, std::string_view key) {
  MET_ASSIGN(const json::Array* pair, array_of(declaration, key));
  if (pair->size() != 2) return invalid(std::string(key), "expected a token and its id");
  return checked((*pair)[1]);
}

// [{"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}}, ...] with "special_tokens" saying the ids.
Result<PostProcessor> read_template(const json::Value& declaration) {
  MET_ASSIGN(const json::Array* steps, array_of(declaration, "single"));
  const json::Value* table = declaration.find("special_tokens");
  PostProcessor post;
  bool after = false;
  for (const json::Value& step : *steps) {
    if (step.find("Sequence") != nullptr) {
      if (after)
        return unsupported("post_processor.single", "a template that repeats the text is not supported");
      after = true;
      continue;
    }
    const json::Value* special = step.find("SpecialToken");
    const json::Value* name = special == nullptr ? nullptr : special->find("id");
    if (name == nullptr || !name->is_string())
      return invalid("post_processor.single", "expected SpecialToken or Sequence with an id");
    const json::Value* entry = table == nullptr ? nullptr : table->find(name->as_string());
    if (entry == nullptr)
      return invalid("post_processor.special_tokens", "'" + name->as_string() + "' is not listed");
    MET_ASSIGN(const json::Array* ids, array_of(*entry, "ids"));
    for (const json::Value& id : *ids) {
      MET_ASSIGN(const TokenId token, checked(id));
      (after ? post.suffix : post.prefix).push_back(token);
    }
  }
  return post;
}

}  // namespace

Result<PostProcessor> read_post_processor(const json::Value& declaration) {
  PostProcessor post;
  if (declaration.is_null()) return post;
  MET_ASSIGN(const std::string type, type_of(declaration, "post_processor"));
  if (type == "ByteLevel") return post;
  if (type == "TemplateProcessing") return read_template(declaration);
  if (type == "BertProcessing" || type == "RobertaProcessing") {
    MET_ASSIGN(const TokenId cls, pair_id(declaration, "cls"));
    MET_ASSIGN(const TokenId sep, pair_id(declaration, "sep"));
    post.prefix.push_back(cls);
    post.suffix.push_back(sep);
    return post;
  }
  if (type != "Sequence")
    return unsupported("post_processor.type", "post-processor '" + type + "' is not known");
  MET_ASSIGN(const json::Array* list, array_of(declaration, "processors"));
  for (const json::Value& step : *list) {  // a later step wraps what the earlier ones made
    MET_ASSIGN(PostProcessor one, read_post_processor(step));
    post.prefix.insert(post.prefix.begin(), one.prefix.begin(), one.prefix.end());
    post.suffix.insert(post.suffix.end(), one.suffix.begin(), one.suffix.end());
  }
  return post;
}

}  // namespace met::text
