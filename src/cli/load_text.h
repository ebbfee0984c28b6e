// The text side of a model from its files: tokenizer, chat template, end ids.
#pragma once

#include <memory>

#include "api/model_text.h"
#include "config/settings.h"
#include "engine/loaded_model.h"

namespace met::cli {

/// Errors: those of the tokenizer and the template, naming the file or metadata key; kIo for --chat-template;
/// kInvalidArgument for --default-chat-template-kwargs.
Result<std::shared_ptr<const api::ModelText>> load_text(const config::Settings& settings,
                                                        const engine::LoadedModel& model);

}  // namespace met::cli
