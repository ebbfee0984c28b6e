// The parser of each format; tool_parser.h chooses.
#pragma once

#include <memory>

#include "text/tools/tool_parser.h"

namespace met::text {

std::unique_ptr<ToolParser> make_hermes(std::shared_ptr<const ToolSet> tools);
std::unique_ptr<ToolParser> make_bare_json(std::shared_ptr<const ToolSet> tools);
std::unique_ptr<ToolParser> make_mistral(std::shared_ptr<const ToolSet> tools);
std::unique_ptr<ToolParser> make_gemma4(std::shared_ptr<const ToolSet> tools);
std::unique_ptr<ToolParser> make_qwen3_xml(std::shared_ptr<const ToolSet> tools);
std::unique_ptr<ToolParser> make_minimax(std::shared_ptr<const ToolSet> tools);
std::unique_ptr<ToolParser> make_arg_pairs(std::shared_ptr<const ToolSet> tools);
std::unique_ptr<ToolParser> make_dsml(std::shared_ptr<const ToolSet> tools);
std::unique_ptr<ToolParser> make_deepseek(std::shared_ptr<const ToolSet> tools);
std::unique_ptr<ToolParser> make_pythonic(std::shared_ptr<const ToolSet> tools);

}  // namespace met::text
