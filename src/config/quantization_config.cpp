#include "config/quantization_config.h"

namespace met::config {

namespace {

using Granularity = Fp8Weights::Granularity;

std::unexpected<Error> refuse(const std::string& field, const std::string& found,
                              const std::string& supported) {
  return unsupported(field, field + " " + found + " is not supported; supported: " + supported);
}

std::string shown(const Fields& fields, std::string_view key) {
  const json::Value* const value = fields.find(key);
  return value == nullptr ? "(absent)" : json::write(*value);
}

/// Error unless the key is absent or holds one of the values.
Result<> expect(const Fields& fields, std::string_view key, std::initializer_list<json::Value> allowed) {
  const json::Value* const value = fields.find(key);
  if (value == nullptr) return {};
  std::string list;
  for (const json::Value& one : allowed) {
    if (*value == one) return {};
    list += (list.empty() ? "" : ", ") + json::write(one);
  }
  return refuse(fields.field(key), json::write(*value), list);
}

Result<std::vector<std::string>> names(const Fields& fields, std::string_view key) {
  std::vector<std::string> out;
  const json::Value* const list = fields.find(key);
  if (list == nullptr) return out;
  if (!list->is_array()) return fields.wrong_type(key, "an array of names");
  for (const json::Value& name : list->as_array()) {
    if (!name.is_string()) return fields.wrong_type(key, "an array of names");
    out.push_back(name.as_string());
  }
  return out;
}

Result<> expect_block(const Fields& fields, std::string_view key) {
  const json::Value* const value = fields.find(key);
  const json::Value wanted(json::Array{json::Value(kFp8Block), json::Value(kFp8Block)});
  if (value != nullptr && *value == wanted) return {};
  return refuse(fields.field(key), shown(fields, key), json::write(wanted));
}

/// The method of DeepSeek, AutoFP8 and transformers.
Result<Fp8Weights> read_fp8(const Fields& fields) {
  MET_TRY(expect(fields, "fmt", {json::Value("e4m3")}));
  MET_TRY(expect(fields, "activation_scheme", {json::Value("dynamic"), json::Value("static")}));
  Fp8Weights out{.granularity = Granularity::kTensor, .scales = "weight_scale", .excluded = {}};
  if (fields.find("weight_block_size") != nullptr) {
    MET_TRY(expect_block(fields, "weight_block_size"));
    out.granularity = Granularity::kBlock;
    out.scales = "weight_scale_inv";
  }
  const std::string_view key =
      fields.find("modules_to_not_convert") != nullptr ? "modules_to_not_convert" : "ignored_layers";
  MET_ASSIGN(out.excluded, names(fields, key));
  return out;
}

Result<Granularity> read_group(const Fields& group) {
  MET_ASSIGN(const std::vector<std::string> targets, names(group, "targets"));
  if (targets != std::vector<std::string>{"Linear"})
    return refuse(group.field("targets"), shown(group, "targets"), "[\"Linear\"]");
  MET_ASSIGN(const Fields weights, group.object("weights"));
  MET_TRY(expect(weights, "type", {json::Value("float")}));
  MET_TRY(expect(weights, "num_bits", {json::Value(8)}));
  MET_TRY(expect(weights, "symmetric", {json::Value(true)}));
  MET_TRY(expect(weights, "dynamic", {json::Value(false)}));
  if (group.find("output_activations") != nullptr)
    return refuse(group.field("output_activations"), shown(group, "output_activations"), "null");
  MET_ASSIGN(const std::string strategy, weights.text("strategy", "tensor"));
  if (strategy == "tensor") return Granularity::kTensor;
  if (strategy == "channel") return Granularity::kRow;
  if (strategy != "block")
    return refuse(weights.field("strategy"), shown(weights, "strategy"), "tensor, channel, block");
  MET_TRY(expect_block(weights, "block_structure"));
  return Granularity::kBlock;
}

Result<Fp8Weights> read_compressed(const Fields& fields) {
  MET_TRY(expect(fields, "format", {json::Value("float-quantized"), json::Value("naive-quantized")}));
  MET_TRY(expect(fields, "quantization_status", {json::Value("compressed")}));
  if (const json::Value* const sparsity = fields.find("sparsity_config");
      sparsity != nullptr && !(sparsity->is_object() && sparsity->as_object().empty())) {
    MET_ASSIGN(const Fields own, fields.object("sparsity_config"));
    MET_TRY(expect(own, "format", {json::Value("dense")}));
  }
  MET_ASSIGN(const Fields groups, fields.object("config_groups"));
  const json::Value& all = *fields.find("config_groups");
  if (all.as_object().size() != 1)
    return refuse(fields.field("config_groups"), "with " + std::to_string(all.as_object().size()) + " groups",
                  "one group for all matrices");
  MET_ASSIGN(const Fields group, groups.object((*all.as_object().begin()).first));
  MET_ASSIGN(const Granularity granularity, read_group(group));
  Fp8Weights out{.granularity = granularity, .scales = "weight_scale", .excluded = {}};
  MET_ASSIGN(out.excluded, names(fields, "ignore"));
  return out;
}

/// A cache of E4M3 that a checkpoint was calibrated for: one word in AutoFP8's dialect.
Result<> check_cache(const Fields& fields) {
  const json::Value* const value = fields.find("kv_cache_scheme");
  if (value == nullptr) return {};
  if (value->is_string()) return expect(fields, "kv_cache_scheme", {json::Value("static")});
  MET_ASSIGN(const Fields scheme, fields.object("kv_cache_scheme"));
  MET_TRY(expect(scheme, "type", {json::Value("float")}));
  return expect(scheme, "num_bits", {json::Value(8)});
}

Result<Fp8Weights> read_method(const Fields& fields, const std::string& key) {
  const json::Value* const method = fields.find("quant_method");
  if (method != nullptr && *method == json::Value("fp8")) return read_fp8(fields);
  if (method != nullptr && *method == json::Value("compressed-tensors")) return read_compressed(fields);
  return unsupported(
      key, key + " with quant_method " + shown(fields, "quant_method") +
               " is not supported; supported: \"fp8\" and \"compressed-tensors\" with E4M3 weights, "
               "plain BF16, F16 and F32 weights, or a GGUF file");
}

}  // namespace

Result<std::optional<Fp8Weights>> read_quantization(const Fields& config) {
  for (const char* key : {"quantization_config", "compression_config"}) {
    const json::Value* const value = config.find(key);
    if (value == nullptr || (value->is_object() && value->as_object().empty())) continue;
    const Fields fields(*value, config.field(key) + ".");
    MET_ASSIGN(Fp8Weights out, read_method(fields, config.field(key)));
    MET_TRY(check_cache(fields));
    return out;
  }
  return std::nullopt;
}

}  // namespace met::config
