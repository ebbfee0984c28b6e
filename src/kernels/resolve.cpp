#include "kernels/resolve.h"

#include <algorithm>
#include <cctype>
#include <set>

namespace met::kernels {
namespace {

using Candidates = std::vector<const Target*>;

std::string lower(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

std::string list(const Candidates& targets) {
  std::string out;
  for (const Target* target : targets) out += (out.empty() ? "" : ", ") + full_name(*target);
  return out.empty() ? "none" : out;
}

Candidates all(std::span<const Target> targets) {
  Candidates out;
  for (const Target& target : targets) out.push_back(&target);
  return out;
}

/// Names that [model.dims] may use.
constexpr std::string_view kDimKeys[] = {"hidden",     "layers", "heads", "kv_heads", "head_dim",
                                         "rotary_dim", "ffn",    "vocab", "experts",  "experts_per_token",
                                         "expert_ffn", "window"};

/// Every size that both sides name is equal.
bool same_dims(const Target& target, std::span<const Dim> dims) {
  return std::ranges::all_of(dims, [&](const Dim& dim) {
    const auto own = std::ranges::find(target.dims, dim.key, &Dim::key);
    return own == target.dims.end() || own->value == dim.value;
  });
}

bool serves(const Target& target, const std::string& model_type, int hidden_size, std::span<const Dim> dims) {
  return std::ranges::any_of(target.model_types,
                             [&](const ModelType& type) {
                               return type.model_type == model_type &&
                                      (type.hidden_size == 0 || type.hidden_size == hidden_size);
                             }) &&
         same_dims(target, dims);
}

bool is_exact(const Target& target, const std::string& model_type, int hidden_size) {
  return std::ranges::any_of(target.model_types, [&](const ModelType& type) {
    return type.model_type == model_type && type.hidden_size != 0 && type.hidden_size == hidden_size;
  });
}

bool is_named(const Target& target, std::span<const std::string_view> identities) {
  return std::ranges::any_of(target.match_names, [&](std::string_view needle) {
    return std::ranges::any_of(identities, [&](std::string_view identity) {
      return lower(identity).find(lower(needle)) != std::string::npos;
    });
  });
}

std::set<std::string_view> models(const Candidates& targets) {
  std::set<std::string_view> out;
  for (const Target* target : targets) out.insert(target->model);
  return out;
}

/// Drops the others where at least one candidate is preferred.
template <class Preferred>
void keep_if_any(Candidates& candidates, Preferred preferred) {
  if (std::ranges::any_of(candidates, preferred))
    std::erase_if(candidates, [&](const Target* target) { return !preferred(target); });
}

Result<const Target*> pinned(const Candidates& candidates, const Request& request) {
  Candidates found;
  for (const Target* target : candidates)
    if (request.pinned == target->model || request.pinned == full_name(*target)) found.push_back(target);
  keep_if_any(found, [&](const Target* t) { return t->quant == name(request.storage); });
  if (found.size() == 1) return found.front();
  return invalid("--kernel-target",
                 "\"" + std::string(request.pinned) + "\" " +
                     (found.empty() ? "cannot serve this model" : "names several targets: " + list(found)) +
                     "; those that can: " + list(candidates));
}

/// One of several targets that are equally exact.
Result<const Target*> break_tie(const Candidates& candidates, const Request& request) {
  Candidates named;
  for (const Target* target : candidates)
    if (models(candidates).size() == 1 || is_named(*target, request.identities)) named.push_back(target);
  if (named.size() == 1) return named.front();
  std::string identities;
  for (const std::string_view identity : request.identities)
    identities += (identities.empty() ? "" : ", ") + std::string(identity);
  return invalid("--kernel-target", "several kernel targets serve this model and its names (" + identities +
                                        ") do not decide between " +
                                        list(named.empty() ? candidates : named) + ": pin one");
}

}  // namespace

std::string_view name(Storage storage) {
  constexpr std::string_view kNames[] = {"bf16", "fp16", "fp32", "fp8", "nvfp4", "gguf"};
  return kNames[static_cast<int>(storage)];
}

bool pairs(std::string_view quant, Storage storage) {
  struct Row {
    std::string_view quant;
    Storage storage;
  };
  constexpr Row kRows[] = {
      {"bf16", Storage::kBf16},  {"bf16", Storage::kFp16}, {"bf16", Storage::kFp32},
      {"fp8", Storage::kFp8},    {"nvfp4", Storage::kFp8}, {"nvfp4", Storage::kNvfp4},
      {"nvfp4", Storage::kBf16}, {"gguf", Storage::kGguf},
  };
  return std::ranges::any_of(kRows,
                             [&](const Row& row) { return row.quant == quant && row.storage == storage; });
}

std::string normalized_model_type(std::string_view model_type) {
  std::string out = lower(model_type);
  std::ranges::replace_if(out, [](char c) { return c == '-' || c == '.'; }, '_');
  return out;
}

std::string full_name(const Target& target) {
  return std::string(target.hardware->name) + "/" + std::string(target.model) + "/" +
         std::string(target.quant);
}

Result<const Target*> resolve(std::span<const Target> targets, const Request& request) {
  for (const Dim& dim : request.dims)
    MET_CHECK(std::ranges::find(kDimKeys, dim.key) != std::end(kDimKeys), std::string(dim.key));
  const std::string type = normalized_model_type(request.model_type);
  Candidates of_type;
  for (const Target& target : targets)
    if (target.hardware->name == request.hardware && serves(target, type, request.hidden_size, request.dims))
      of_type.push_back(&target);
  if (of_type.empty())
    return fail(ErrorCode::kNotFound,
                "no kernel target of this build serves model type " + type + " with hidden size " +
                    std::to_string(request.hidden_size) + " on " + std::string(request.hardware) +
                    "; there are: " + list(all(targets)),
                "model_type");
  Candidates candidates;
  for (const Target* target : of_type)
    if (pairs(target->quant, request.storage)) candidates.push_back(target);
  if (candidates.empty())
    return unsupported("quantization",
                       "no kernel target for " + type + " on " + std::string(request.hardware) + " reads " +
                           std::string(name(request.storage)) + " weights; there are: " + list(of_type));
  if (!request.pinned.empty()) return pinned(candidates, request);
  keep_if_any(candidates, [&](const Target* t) { return is_exact(*t, type, request.hidden_size); });
  keep_if_any(candidates, [&](const Target* t) { return t->quant == name(request.storage); });
  return candidates.size() == 1 ? Result<const Target*>(candidates.front()) : break_tie(candidates, request);
}

}  // namespace met::kernels
