#include "config/rope_config.h"

#include <cmath>

namespace met::config {

namespace {

constexpr std::size_t kFactorsMax = static_cast<std::size_t>(kHeadDimMax) / 2;
constexpr double kLocalTheta = 10000;  // gemma3: Gemma3TextConfig.rope_local_base_freq

struct KindName {
  std::string_view name;
  RopeKind kind;
};
constexpr KindName kKinds[] = {
    {"default", RopeKind::kPlain},   {"linear", RopeKind::kLinear},     {"llama3", RopeKind::kLlama3},
    {"yarn", RopeKind::kYarn},       {"longrope", RopeKind::kLongRope}, {"su", RopeKind::kLongRope},
    {"dynamic", RopeKind::kDynamic},
};

Result<RopeKind> kind_of(const Fields& rope) {
  // "type" is the key's name in files from before 2024.
  const std::string_view key = rope.find("rope_type") != nullptr ? "rope_type" : "type";
  MET_ASSIGN(const std::string name, rope.text(key, "default"));
  std::string known;
  for (const KindName& row : kKinds) {
    if (row.name == name) return row.kind;
    known += (known.empty() ? "" : ", ") + std::string(row.name);
  }
  std::string shown;
  json::write_string(name, shown);
  return unsupported(rope.field(key),
                     rope.field(key) + " " + shown + " is not supported; supported: " + known);
}

Result<std::vector<double>> factors(const Fields& rope, std::string_view key) {
  const json::Value* const value = rope.find(key);
  if (value == nullptr || !value->is_array()) return rope.wrong_type(key, "an array of numbers");
  if (value->as_array().size() > kFactorsMax)
    return invalid(rope.field(key),
                   rope.field(key) + " has more than " + std::to_string(kFactorsMax) + " values");
  std::vector<double> out;
  for (const json::Value& v : value->as_array()) {
    if (!v.is_number() || !(v.as_number() > 0))
      return invalid(rope.field(key), rope.field(key) + " holds a value that is no number above 0");
    out.push_back(v.as_number());
  }
  return out;
}

Result<> read_yarn(const Fields& rope, RopeConfig& out) {
  MET_ASSIGN(out.beta_fast, rope.positive("beta_fast", 32));
  MET_ASSIGN(out.beta_slow, rope.positive("beta_slow", 1));
  if (rope.find("attention_factor") != nullptr) {
    MET_ASSIGN(out.attention_factor, rope.positive("attention_factor", std::nullopt));
  }
  MET_ASSIGN(out.mscale, rope.number("mscale", 0));
  MET_ASSIGN(out.mscale_all_dim, rope.number("mscale_all_dim", 0));
  MET_ASSIGN(out.truncate, rope.flag("truncate", true));
  return {};
}

// `rope` is rope_parameters or rope_scaling; `config` holds what older files keep beside it.
Result<RopeConfig> read(const Fields& rope, const Fields& config, const RopeDefaults& defaults) {
  RopeConfig out;
  MET_ASSIGN(out.kind, kind_of(rope));
  MET_ASSIGN(const double theta, config.positive("rope_theta", defaults.theta));
  MET_ASSIGN(out.theta, rope.positive("rope_theta", theta));
  MET_ASSIGN(const double partial, config.positive("partial_rotary_factor", 1.0));
  MET_ASSIGN(out.partial_factor, rope.positive("partial_rotary_factor", partial));
  if (out.partial_factor > 1)
    return invalid(rope.field("partial_rotary_factor"), rope.field("partial_rotary_factor") + " is above 1");
  if (out.kind == RopeKind::kPlain) return out;
  const bool longrope = out.kind == RopeKind::kLongRope;
  MET_ASSIGN(out.factor, rope.positive("factor", longrope ? std::optional(1.0) : std::nullopt));
  if (out.kind == RopeKind::kLinear) return out;
  const bool required = out.kind == RopeKind::kLlama3;
  MET_ASSIGN(const double original, config.positive("original_max_position_embeddings",
                                                    static_cast<double>(defaults.max_positions)));
  MET_ASSIGN(out.original_max_positions, rope.positive("original_max_position_embeddings",
                                                       required ? std::nullopt : std::optional(original)));
  if (out.kind == RopeKind::kLlama3) {
    MET_ASSIGN(out.low_freq_factor, rope.positive("low_freq_factor", std::nullopt));
    MET_ASSIGN(out.high_freq_factor, rope.positive("high_freq_factor", std::nullopt));
    if (out.high_freq_factor <= out.low_freq_factor)
      return invalid(rope.field("high_freq_factor"),
                     rope.field("high_freq_factor") + " must be above low_freq_factor");
  }
  if (out.kind == RopeKind::kYarn) MET_TRY(read_yarn(rope, out));
  if (longrope) {
    MET_ASSIGN(out.long_factors, factors(rope, "long_factor"));
    MET_ASSIGN(out.short_factors, factors(rope, "short_factor"));
  }
  return out;
}

const json::Value& empty_object() {
  static const json::Value empty{json::Object{}};
  return empty;
}

bool by_layer_type(const Fields& parameters) {
  return parameters.find("full_attention") != nullptr || parameters.find("sliding_attention") != nullptr;
}

}  // namespace

Result<RopeConfig> rope_from_json(const Fields& config, const RopeDefaults& defaults) {
  if (config.find("rope_parameters") != nullptr) {
    MET_ASSIGN(const Fields parameters, config.object("rope_parameters"));
    if (by_layer_type(parameters))
      return unsupported("rope_parameters",
                         "rope_parameters by layer type are not supported for this model_type");
    return read(parameters, config, defaults);
  }
  if (config.find("rope_scaling") == nullptr) return read(Fields(empty_object()), config, defaults);
  MET_ASSIGN(const Fields scaling, config.object("rope_scaling"));
  return read(scaling, config, defaults);
}

Result<RopePair> rope_pair_from_json(const Fields& config, const RopeDefaults& defaults) {
  RopePair pair;
  if (config.find("rope_parameters") != nullptr) {
    MET_ASSIGN(const Fields parameters, config.object("rope_parameters"));
    if (by_layer_type(parameters)) {
      MET_ASSIGN(const Fields full, parameters.object("full_attention"));
      MET_ASSIGN(const Fields local, parameters.object("sliding_attention"));
      MET_ASSIGN(pair.full, read(full, config, defaults));
      MET_ASSIGN(pair.local, read(local, config, {kLocalTheta, defaults.max_positions}));
      return pair;
    }
  }
  MET_ASSIGN(pair.full, rope_from_json(config, defaults));
  pair.local.partial_factor = pair.full.partial_factor;
  MET_ASSIGN(pair.local.theta, config.positive("rope_local_base_freq", kLocalTheta));
  return pair;
}

}  // namespace met::config
