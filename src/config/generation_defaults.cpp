#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "config/json_fields.h"
#include "config/read_model_config.h"

namespace met::config {

namespace {

constexpr std::uintmax_t kFileBytesMax = 64 << 20;  // no config.json comes near it

Result<json::Value> read_json(const std::filesystem::path& path) {
  std::error_code ec;
  const std::uintmax_t size = std::filesystem::file_size(path, ec);
  if (ec) return fail(ErrorCode::kIo, "cannot read " + path.string() + ": " + ec.message(), path.string());
  if (size > kFileBytesMax)
    return fail(ErrorCode::kPayloadTooLarge,
                path.string() + " has " + std::to_string(size) + " bytes; at most " +
                    std::to_string(kFileBytesMax) + " are read",
                path.string());
  std::ifstream stream(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(stream), {}};
  if (!stream) return fail(ErrorCode::kIo, "cannot read " + path.string(), path.string());
  return json::parse(text);
}

template <class T>
Result<T> with_path(Result<T> result, const std::filesystem::path& path) {
  if (result) return result;
  Error error = std::move(result).error();
  if (!error.message.contains(path.string())) error.message = path.string() + ": " + error.message;
  return std::unexpected(std::move(error));
}

}  // namespace

Result<GenerationDefaults> generation_defaults_from_json(const json::Value& generation_config_json) {
  if (!generation_config_json.is_object())
    return invalid("generation_config.json", "generation_config.json holds no object");
  const Fields in(generation_config_json);
  GenerationDefaults out;
  const auto number = [&](std::string_view key, std::optional<double>& target) -> Result<> {
    if (in.find(key) == nullptr) return {};
    MET_ASSIGN(target, in.number(key, std::nullopt));
    return {};
  };
  MET_TRY(number("temperature", out.temperature));
  MET_TRY(number("top_p", out.top_p));
  MET_TRY(number("min_p", out.min_p));
  MET_TRY(number("repetition_penalty", out.repetition_penalty));
  if (in.find("top_k") != nullptr) {
    MET_ASSIGN(out.top_k, in.size("top_k", std::nullopt, -1, INT32_MAX));
  }
  if (in.find("do_sample") != nullptr) {
    MET_ASSIGN(out.do_sample, in.flag("do_sample", false));
  }
  MET_ASSIGN(out.eos_ids, token_ids(in, "eos_token_id"));
  return out;
}

Result<ModelDescription> read_model_directory(const std::string& directory) {
  const std::filesystem::path root(directory);
  ModelDescription out;
  const auto config = root / "config.json";
  MET_ASSIGN(const json::Value config_json, with_path(read_json(config), config));
  MET_ASSIGN(out.model, with_path(model_config_from_json(config_json), config));
  out.model.name = std::filesystem::absolute(root).lexically_normal().filename().string();
  const auto generation = root / "generation_config.json";
  std::error_code ec;
  if (!std::filesystem::exists(generation, ec)) return out;
  MET_ASSIGN(const json::Value generation_json, with_path(read_json(generation), generation));
  MET_ASSIGN(out.generation, with_path(generation_defaults_from_json(generation_json), generation));
  std::vector<std::int32_t> ids = out.generation.eos_ids;
  for (const std::int32_t id : out.model.eos_ids)
    if (std::ranges::find(ids, id) == ids.end()) ids.push_back(id);
  out.model.eos_ids = std::move(ids);
  return out;
}

Result<ModelDescription> describe_gguf(const formats::GgufFile& file) {
  ModelDescription out;
  MET_ASSIGN(out.model, model_config_from_gguf(file));
  out.generation.eos_ids = out.model.eos_ids;
  return out;
}

}  // namespace met::config
