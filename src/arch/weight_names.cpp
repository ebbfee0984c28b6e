#include "arch/weight_names.h"

#include <algorithm>
#include <array>

#include "core/error.h"

namespace met::arch {

namespace {

constexpr WeightName kCommon[] = {
    {Role::kEmbedding, "model.embed_tokens"},
    {Role::kFinalNorm, "model.norm"},
    {Role::kHead, "lm_head"},
    {Role::kAttnNorm, "model.layers.{}.input_layernorm"},
    {Role::kQuery, "model.layers.{}.self_attn.q_proj"},
    {Role::kKey, "model.layers.{}.self_attn.k_proj"},
    {Role::kValue, "model.layers.{}.self_attn.v_proj"},
    {Role::kQueryNorm, "model.layers.{}.self_attn.q_norm"},
    {Role::kKeyNorm, "model.layers.{}.self_attn.k_norm"},
    {Role::kAttnOut, "model.layers.{}.self_attn.o_proj"},
    {Role::kFfnNorm, "model.layers.{}.post_attention_layernorm"},
    {Role::kGate, "model.layers.{}.mlp.gate_proj"},
    {Role::kUp, "model.layers.{}.mlp.up_proj"},
    {Role::kDown, "model.layers.{}.mlp.down_proj"},
    {Role::kRouter, "model.layers.{}.mlp.gate"},
    {Role::kExpertGate, "model.layers.{}.mlp.experts.{}.gate_proj"},
    {Role::kExpertUp, "model.layers.{}.mlp.experts.{}.up_proj"},
    {Role::kExpertDown, "model.layers.{}.mlp.experts.{}.down_proj"},
};

// `own` rows in front of `base`: a look-up takes the first of a role.
template <std::size_t Own, std::size_t Base>
constexpr std::array<WeightName, Own + Base> over(const WeightName (&own)[Own],
                                                  const WeightName (&base)[Base]) {
  std::array<WeightName, Own + Base> names{};
  std::ranges::copy(own, names.begin());
  std::ranges::copy(base, names.begin() + Own);
  return names;
}

// Gemma 3 has norms on both sides of each block, and its post_attention_layernorm is not the norm of the feed-forward.
constexpr WeightName kGemma3Norms[] = {
    {Role::kPostAttnNorm, "model.layers.{}.post_attention_layernorm"},
    {Role::kFfnNorm, "model.layers.{}.pre_feedforward_layernorm"},
    {Role::kPostFfnNorm, "model.layers.{}.post_feedforward_layernorm"},
};
constexpr auto kGemma3 = over(kGemma3Norms, kCommon);

constexpr WeightName kGguf[] = {
    {Role::kEmbedding, "token_embd"},
    {Role::kFinalNorm, "output_norm"},
    {Role::kHead, "output"},
    {Role::kAttnNorm, "blk.{}.attn_norm"},
    {Role::kQuery, "blk.{}.attn_q"},
    {Role::kKey, "blk.{}.attn_k"},
    {Role::kValue, "blk.{}.attn_v"},
    {Role::kQueryNorm, "blk.{}.attn_q_norm"},
    {Role::kKeyNorm, "blk.{}.attn_k_norm"},
    {Role::kAttnOut, "blk.{}.attn_output"},
    {Role::kPostAttnNorm, "blk.{}.post_attention_norm"},
    {Role::kFfnNorm, "blk.{}.ffn_norm"},
    {Role::kGate, "blk.{}.ffn_gate"},
    {Role::kUp, "blk.{}.ffn_up"},
    {Role::kDown, "blk.{}.ffn_down"},
    {Role::kPostFfnNorm, "blk.{}.post_ffw_norm"},
    {Role::kRouter, "blk.{}.ffn_gate_inp"},
    {Role::kExpertGate, "blk.{}.ffn_gate_exps"},
    {Role::kExpertUp, "blk.{}.ffn_up_exps"},
    {Role::kExpertDown, "blk.{}.ffn_down_exps"},
};

}  // namespace

std::span<const WeightName> common_names() { return kCommon; }
std::span<const WeightName> gemma3_names() { return kGemma3; }
std::span<const WeightName> gguf_names() { return kGguf; }

std::string weight_name(std::span<const WeightName> names, Role role, int layer) {
  const auto it = std::ranges::find(names, role, &WeightName::role);
  MET_CHECK(it != names.end(), "a recipe asks for a role that its names lack");
  std::string name(it->name);
  if (const auto at = name.find("{}"); at != std::string::npos) name.replace(at, 2, std::to_string(layer));
  return name;
}

}  // namespace met::arch
