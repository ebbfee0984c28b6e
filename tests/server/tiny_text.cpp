#include "tests/server/tiny_text.h"

#include <cstdio>
#include <cstdlib>

#include "core/utf8.h"

namespace met::testing {
namespace {

/// tokenizer.json of a byte-level BPE without merges.
std::string tokenizer_json(const std::vector<std::string>& more) {
  json::Object vocabulary;
  int next = 256;  // bytes that are no printable Latin-1 map to U+0100 and on, in order
  for (int byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
    std::string key;
    utf8::append(static_cast<char32_t>(printable ? byte : next++), key);
    vocabulary.append(key, byte);
  }
  json::Array added;
  std::vector<std::string> all{"<|im_start|>", "<|im_end|>", "<|endoftext|>"};
  all.insert(all.end(), more.begin(), more.end());
  int id = 256;
  for (const std::string& content : all) {
    json::Object token;
    token.append("id", id++);
    token.append("content", content);
    for (const char* flag : {"single_word", "lstrip", "rstrip", "normalized"}) token.append(flag, false);
    token.append("special", true);
    added.emplace_back(std::move(token));
  }
  json::Object bytes{
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", false}};
  json::Object model{{"type", "BPE"},
                     {"dropout", nullptr},
                     {"unk_token", nullptr},
                     {"continuing_subword_prefix", nullptr},
                     {"end_of_word_suffix", nullptr},
                     {"fuse_unk", false},
                     {"byte_fallback", false}};
  model.append("vocab", std::move(vocabulary));
  model.append("merges", json::Array{});
  json::Object root{{"version", "1.0"}, {"truncation", nullptr}, {"padding", nullptr}};
  root.append("added_tokens", std::move(added));
  root.append("normalizer", nullptr);
  root.append("pre_tokenizer", bytes);
  root.append("post_processor", nullptr);
  root.append("decoder", bytes);
  root.append("model", std::move(model));
  return json::write(root);
}

text::Tokenizer tokenizer(const std::vector<std::string>& added = {}) {
  auto made = text::Tokenizer::from_json(tokenizer_json(added));
  if (!made) {
    std::fprintf(stderr, "tiny tokenizer: %s (%s)\n", made.error().message.c_str(),
                 made.error().field.c_str());
    std::abort();
  }
  return std::move(*made);
}

/// <|im_start|>role\ncontent<|im_end|>\n for each message; refuses the role "tool", as some templates do.
class ChatMl final : public api::ChatRenderer {
 public:
  Result<api::RenderedPrompt> render(const json::Array& messages,
                                     const api::RenderOptions& options) const override {
    api::RenderedPrompt out;
    for (const json::Value& tool : options.tools) out.text += "tool " + json::write(tool) + "\n";
    for (std::size_t i = 0; i < messages.size(); ++i) {
      const std::string& role = messages[i].find("role")->as_string();
      if (role == "tool") return invalid("messages", "this template knows no tools");
      out.text += "<|im_start|>" + role + "\n";
      const std::size_t begin = out.text.size();
      out.text += messages[i].find("content")->as_string();
      out.untrusted.push_back({begin, out.text.size()});
      if (i + 1 < messages.size() || !options.continue_final_message) out.text += "<|im_end|>\n";
    }
    if (!options.add_generation_prompt) return out;
    out.text += "<|im_start|>assistant\n";
    const json::Value* thinks = options.variables.find("enable_thinking");
    if (thinks != nullptr) out.text += thinks->as_bool() ? "<think>\n" : "<think>\n\n</think>\n\n";
    return out;
  }
};

}  // namespace

std::shared_ptr<const api::ModelText> tiny_text(const api::AnswerHabits& habits,
                                                const std::vector<std::string>& added) {
  return std::make_shared<api::ModelText>(api::ModelText{.names = {"tiny"},
                                                         .tokenizer = tokenizer(added),
                                                         .chat = std::make_shared<ChatMl>(),
                                                         .habits = habits,
                                                         .eos_ids = {kImEnd},
                                                         .defaults = {},
                                                         .fingerprint = "fp_test",
                                                         .created = 1'700'000'000});
}

std::vector<text::TokenId> tiny_ids(std::string_view text) {
  return tokenizer().encode(text, {.added = text::AddedTokens::kNone});
}

}  // namespace met::testing
