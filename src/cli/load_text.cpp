#include "cli/load_text.h"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "config/environment.h"
#include "config/read_model_config.h"
#include "core/log.h"
#include "formats/gguf.h"
#include "text/chat/chat_template.h"
#include "text/tokenizer/gguf_vocabulary.h"

namespace met::cli {

namespace {

namespace fs = std::filesystem;

/// What the files of a model say about its text.
struct TextFiles {
  std::optional<text::Tokenizer> tokenizer;
  text::TemplateSources templates;
  json::Value tokenizer_config;  ///< `templates` refers to it
};

/// `field` is the flag or file that the error names.
Result<std::string> read_file(const fs::path& path, const std::string& field) {
  std::error_code error;
  if (!fs::is_regular_file(path, error))
    return fail(ErrorCode::kIo, path.string() + " is not a readable file", field);
  std::ifstream file(path, std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(file)), {});
  if (!file.good() && !file.eof()) return fail(ErrorCode::kIo, path.string() + " could not be read", field);
  return bytes;
}

Result<> read_gguf(const std::string& path, TextFiles& out) {
  MET_ASSIGN(const formats::GgufFile file, formats::GgufFile::open(path));
  MET_ASSIGN(const text::GgufVocabulary vocabulary, text::GgufVocabulary::read(file));
  MET_ASSIGN(out.tokenizer, text::Tokenizer::from_gguf(vocabulary));
  MET_ASSIGN(const std::optional<std::string_view> chat, file.string("tokenizer.chat_template"));
  if (chat) out.templates.gguf = std::string(*chat);
  return {};
}

Result<> read_folder(const fs::path& folder, TextFiles& out) {
  MET_ASSIGN(out.tokenizer, text::Tokenizer::from_folder(folder));
  if (fs::exists(folder / "tokenizer_config.json")) {
    MET_ASSIGN(const std::string text, read_file(folder / "tokenizer_config.json", "tokenizer_config.json"));
    MET_ASSIGN(out.tokenizer_config, json::parse(text));
    out.templates.tokenizer_config = &out.tokenizer_config;
  }
  if (fs::exists(folder / "chat_template.jinja")) {
    MET_ASSIGN(out.templates.jinja_file, read_file(folder / "chat_template.jinja", "chat_template.jinja"));
  }
  return {};
}

text::SpecialTokens special_tokens(const text::Tokenizer& tokenizer) {
  text::SpecialTokens tokens;
  const auto add = [&](const char* name, std::optional<text::TokenId> id) {
    if (id) tokens.emplace_back(name, tokenizer.piece(*id));
  };
  add("bos_token", tokenizer.bos());
  add("eos_token", tokenizer.eos());
  add("unk_token", tokenizer.unknown());
  add("pad_token", tokenizer.padding());
  return tokens;
}

/// A compiled template with the server's own variables under the request's.
class TemplateRenderer final : public api::ChatRenderer {
 public:
  TemplateRenderer(std::shared_ptr<const text::ChatTemplate> chat, json::Object variables)
      : chat_(std::move(chat)), variables_(std::move(variables)) {}

  Result<api::RenderedPrompt> render(const json::Array& messages,
                                     const api::RenderOptions& options) const override {
    json::Object variables = variables_;
    for (const auto& [name, value] : options.variables) variables.set(name, value);
    const json::Value all(messages);
    text::ChatRequest request{.messages = &all,
                              .add_generation_prompt = options.add_generation_prompt,
                              .continue_final_message = options.continue_final_message,
                              .kwargs = &variables};
    const std::time_t now = std::time(nullptr);
    localtime_r(&now, &request.now);
    MET_ASSIGN(text::RenderedPrompt prompt, chat_->render(request));
    return api::RenderedPrompt{std::move(prompt.text), std::move(prompt.untrusted)};
  }

 private:
  std::shared_ptr<const text::ChatTemplate> chat_;
  json::Object variables_;
};

Result<json::Object> default_variables(const std::string& text) {
  if (text.empty()) return json::Object{};
  auto parsed = json::parse(text);
  if (!parsed || !parsed->is_object())
    return invalid("--default-chat-template-kwargs", "is not a JSON object");
  return std::move(parsed->as_object());
}

Result<std::shared_ptr<const api::ChatRenderer>> make_renderer(const config::Settings& settings,
                                                               const TextSource& model, TextFiles& files) {
  if (!settings.chat_template.empty()) {
    MET_ASSIGN(files.templates.explicit_text, read_file(settings.chat_template, "--chat-template"));
  }
  if (!settings.disable_template_overrides) files.templates.model_type = model.config.model_type;
  const text::SelectedTemplate selected = text::select_template(files.templates);
  MET_ASSIGN(std::shared_ptr<const text::ChatTemplate> chat,
             text::ChatTemplate::compile(selected.source, special_tokens(*files.tokenizer)));
  log::info("chat template: " + selected.origin);
  for (const std::string& warning : chat->warnings()) log::warn("chat template: " + warning);
  MET_ASSIGN(json::Object variables, default_variables(settings.default_chat_template_kwargs));
  return std::make_shared<const TemplateRenderer>(std::move(chat), std::move(variables));
}

std::vector<text::TokenId> end_ids(const TextSource& model, const text::Tokenizer& tokenizer) {
  std::vector<text::TokenId> ids(model.config.eos_ids.begin(), model.config.eos_ids.end());
  ids.insert(ids.end(), model.generation.eos_ids.begin(), model.generation.eos_ids.end());
  ids.insert(ids.end(), tokenizer.end_of_generation().begin(), tokenizer.end_of_generation().end());
  if (ids.empty() && tokenizer.eos()) ids.push_back(*tokenizer.eos());
  std::ranges::sort(ids);
  const auto [first, last] = std::ranges::unique(ids);
  ids.erase(first, last);
  return ids;
}

std::int64_t file_time(const std::string& path) {
  std::error_code error;
  const auto time = fs::last_write_time(path, error);
  if (error) return 0;
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::file_clock::to_sys(time).time_since_epoch())
      .count();
}

}  // namespace

Result<TextSource> find_text_source(const config::Settings& settings) {
  TextSource out;
  MET_ASSIGN(out.source, hub::resolve_model(settings.model, settings.cache_dir, settings.model_from_path,
                                            config::Environment::process()));
  config::ModelDescription description;
  if (out.source.kind == hub::SourceKind::kGguf) {
    MET_ASSIGN(const formats::GgufFile file, formats::GgufFile::open(out.source.path));
    MET_ASSIGN(description, config::describe_gguf(file));
  } else {
    MET_ASSIGN(description, config::read_model_directory(out.source.path));
  }
  out.config = std::move(description.model);
  out.generation = std::move(description.generation);
  return out;
}

Result<std::shared_ptr<api::ModelText>> load_text(const config::Settings& settings, const TextSource& model) {
  TextFiles files;
  if (model.source.kind == hub::SourceKind::kGguf)
    MET_TRY(read_gguf(model.source.path, files));
  else
    MET_TRY(read_folder(model.source.path, files));
  MET_ASSIGN(std::shared_ptr<const api::ChatRenderer> chat, make_renderer(settings, model, files));
  std::vector<text::TokenId> eos = end_ids(model, *files.tokenizer);
  const std::string name = settings.model_name.empty() ? model.source.name : settings.model_name;
  return std::make_shared<api::ModelText>(api::ModelText{.names = {name},
                                                         .tokenizer = std::move(*files.tokenizer),
                                                         .chat = std::move(chat),
                                                         .eos_ids = std::move(eos),
                                                         .defaults = model.generation,
                                                         .fingerprint = "met-" + model.kernel_target,
                                                         .created = file_time(model.source.path)});
}

}  // namespace met::cli
