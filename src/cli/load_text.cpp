#include "cli/load_text.h"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "api/chat_format.h"
#include "api/vocabulary.h"
#include "config/environment.h"
#include "config/read_model_config.h"
#include "core/concat.h"
#include "core/log.h"
#include "formats/gguf.h"
#include "kernels/table.h"
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

/// Compiled templates with the server's own variables under the request's.
class TemplateRenderer final : public api::ChatRenderer {
 public:
  using Template = std::shared_ptr<const text::ChatTemplate>;
  /// `with_tools` is for requests that have some.
  TemplateRenderer(Template chat, Template with_tools, json::Object variables)
      : chat_(std::move(chat)), with_tools_(std::move(with_tools)), variables_(std::move(variables)) {}

  Result<api::RenderedPrompt> render(const json::Array& messages,
                                     const api::RenderOptions& options) const override {
    json::Object variables = variables_;
    for (const auto& [name, value] : options.variables) variables.set(name, value);
    const json::Value all(messages);
    const json::Value tools(options.tools);
    text::ChatRequest request{.messages = &all,
                              .tools = options.tools.empty() ? nullptr : &tools,
                              .add_generation_prompt = options.add_generation_prompt,
                              .continue_final_message = options.continue_final_message,
                              .kwargs = &variables};
    const std::time_t now = std::time(nullptr);
    localtime_r(&now, &request.now);
    MET_ASSIGN(text::RenderedPrompt prompt, (options.tools.empty() ? chat_ : with_tools_)->render(request));
    return api::RenderedPrompt{std::move(prompt.text), std::move(prompt.untrusted)};
  }

 private:
  Template chat_;
  Template with_tools_;
  json::Object variables_;
};

Result<json::Object> default_variables(const std::string& text) {
  if (text.empty()) return json::Object{};
  auto parsed = json::parse(text);
  if (!parsed || !parsed->is_object())
    return invalid("--default-chat-template-kwargs", "is not a JSON object");
  return std::move(parsed->as_object());
}

struct Chat {
  std::shared_ptr<const api::ChatRenderer> renderer;
  api::AnswerHabits habits;
};

/// [behavior] of the MODEL.toml whose kernels serve the model.
json::Object behavior_of(const std::string& kernel_target) {
  for (const kernels::Target& target : kernels::targets()) {
    if (concat(target.hardware->name, "/", target.model, "/", target.quant) != kernel_target) continue;
    const auto tables = json::parse(target.behavior_json);
    const json::Value* behavior = tables ? tables->find("behavior") : nullptr;
    if (behavior != nullptr && behavior->is_object()) return behavior->as_object();
  }
  return {};
}

/// The flag, else MODEL.toml, else what the template shows the model, else what models of its type were trained
/// on.
Result<api::AnswerHabits> habits_of(const config::Settings& settings, const std::string& model_type,
                                    const json::Object& behavior, const text::ChatTemplate& chat) {
  api::AnswerHabits habits;
  habits.tools = text::tool_format_of_template(chat.source());
  if (habits.tools == text::ToolFormat::kNone) habits.tools = text::tool_format_of_model(model_type);
  if (const json::Value* name = behavior.find("tool_call_parser"); name != nullptr)
    habits.tools = text::tool_format(name->as_string()).value_or(habits.tools);
  if (const auto format = text::tool_format(settings.tool_call_parser); format) habits.tools = *format;
  habits.reasoning = text::reasoning_format_of_template(chat.source());
  if (const auto format = text::reasoning_format(settings.reasoning_parser); format)
    habits.reasoning = *format;
  // Calls of harmony are channels, which its reasoning parser reads.
  if (habits.tools == text::ToolFormat::kHarmony) {
    if (settings.reasoning_parser == "auto") habits.reasoning = text::ReasoningFormat::kHarmony;
    if (habits.reasoning != text::ReasoningFormat::kHarmony)
      return invalid("--reasoning-parser",
                     concat("is ", settings.reasoning_parser,
                            ", but tool calls are written in harmony: harmony or auto"));
  }
  habits.takes_tools = chat.mentions("tools");
  habits.takes_effort = chat.mentions("reasoning_effort");
  habits.disable_thinking = settings.disable_thinking;
  habits.budget_max = settings.max_thinking_budget;
  if (const json::Value* tokens = behavior.find("max_thinking_budget"); tokens != nullptr)
    habits.effort_tokens = tokens->as_int();
  if (const json::Value* thinks = behavior.find("thinking_in_tools"); thinks != nullptr)
    habits.thinking_in_tools = thinks->as_bool();
  log::info(concat("tool calls: ", text::name(habits.tools), ", reasoning: ", text::name(habits.reasoning)));
  return habits;
}

/// Variables of every prompt: MODEL.toml's under those of --default-chat-template-kwargs.
Result<json::Object> server_variables(const config::Settings& settings, const json::Object& behavior) {
  json::Object variables;
  if (const json::Value* thinks = behavior.find("thinking_default"); thinks != nullptr)
    variables.set("enable_thinking", *thinks);
  if (const json::Value* keeps = behavior.find("preserve_thinking"); keeps != nullptr)
    variables.set("preserve_thinking", *keeps);
  MET_ASSIGN(const json::Object given, default_variables(settings.default_chat_template_kwargs));
  for (const auto& [name, value] : given) variables.set(name, value);
  return variables;
}

Result<Chat> make_chat(const config::Settings& settings, const TextSource& model, TextFiles& files) {
  if (!settings.chat_template.empty()) {
    MET_ASSIGN(files.templates.explicit_text, read_file(settings.chat_template, "--chat-template"));
  }
  if (!settings.disable_template_overrides) files.templates.model_type = model.config.model_type;
  const text::SelectedTemplate selected = text::select_template(files.templates);
  const text::SpecialTokens tokens = special_tokens(*files.tokenizer);
  MET_ASSIGN(TemplateRenderer::Template chat, text::ChatTemplate::compile(selected.source, tokens));
  TemplateRenderer::Template with_tools = chat;
  if (selected.tool_source) {
    MET_ASSIGN(with_tools, text::ChatTemplate::compile(*selected.tool_source, tokens));
  }
  log::info("chat template: " + selected.origin);
  for (const std::string& warning : chat->warnings()) log::warn("chat template: " + warning);
  const json::Object behavior = behavior_of(model.kernel_target);
  MET_ASSIGN(json::Object variables, server_variables(settings, behavior));
  MET_ASSIGN(api::AnswerHabits habits, habits_of(settings, model.config.model_type, behavior, *with_tools));
  habits.thinking_in_tools |= variables.contains("enable_thinking");
  habits.default_thinking = api::thinking_switch(variables);
  return Chat{
      std::make_shared<const TemplateRenderer>(std::move(chat), std::move(with_tools), std::move(variables)),
      habits};
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
  MET_ASSIGN(Chat chat, make_chat(settings, model, files));
  std::vector<text::TokenId> eos = end_ids(model, *files.tokenizer);
  const std::string name = settings.model_name.empty() ? model.source.name : settings.model_name;
  auto out = std::make_shared<api::ModelText>(api::ModelText{.names = {name},
                                                             .tokenizer = std::move(*files.tokenizer),
                                                             .chat = std::move(chat.renderer),
                                                             .habits = chat.habits,
                                                             .eos_ids = std::move(eos),
                                                             .defaults = model.generation,
                                                             .fingerprint = "met-" + model.kernel_target,
                                                             .created = file_time(model.source.path)});
  const auto width = static_cast<std::size_t>(model.config.vocabulary);
  out->grammars = std::make_shared<grammar::Compiler>(
      [text = out.get(), width] { return api::grammar_vocabulary(text->tokenizer, text->eos_ids, width); });
  return out;
}

}  // namespace met::cli
