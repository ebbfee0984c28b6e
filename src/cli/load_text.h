// The text side of a model from its files: tokenizer, chat template, end ids.
#pragma once

#include <memory>
#include <string>

#include "api/model_text.h"
#include "config/model_config.h"
#include "config/settings.h"
#include "hub/model_source.h"

namespace met::cli {

/// What of a model its text depends on.
struct TextSource {
  hub::ModelSource source;
  config::ModelConfig config;
  config::GenerationDefaults generation;
  std::string kernel_target;  ///< empty before the model is loaded
};

/// Finds the model and reads its headers; no weight is touched.
Result<TextSource> find_text_source(const config::Settings& settings);

/// Errors: those of the tokenizer and the template, naming the file or metadata key; kIo for --chat-template;
/// kInvalidArgument for --default-chat-template-kwargs.
Result<std::shared_ptr<api::ModelText>> load_text(const config::Settings& settings, const TextSource& model);

}  // namespace met::cli
