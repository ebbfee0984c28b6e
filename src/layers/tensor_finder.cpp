#include "layers/tensor_finder.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <numeric>

namespace met::layers {

namespace {

// Frequency factors of GGUF files: part of the configuration, not of the weights.
constexpr std::string_view kReadByConfig = "rope_freqs.weight";

// Scales that round activations and caches, which a device that keeps them in wider types does without.
constexpr std::string_view kRoundingScales[] = {".input_scale", ".output_scale", ".q_scale",
                                                ".k_scale",     ".kv_scale",     ".v_scale"};

bool rounds(std::string_view name) {
  return std::ranges::any_of(kRoundingScales, [&](std::string_view end) { return name.ends_with(end); });
}

bool excludes(const config::Fp8Weights& fp8, std::string_view matrix) {
  const std::string_view last = matrix.substr(matrix.rfind('.') + 1);  // npos + 1: the whole
  return std::ranges::any_of(fp8.excluded,
                             [&](const std::string& name) { return name == matrix || name == last; });
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text = "[";
  for (const std::int64_t d : shape) text += (text.size() > 1 ? ", " : "") + std::to_string(d);
  return text + "]";
}

}  // namespace

Result<std::vector<float>> read_floats(const std::string& name, const weights::TensorView& tensor) {
  const auto count = tensor.bytes.size() * static_cast<std::size_t>(info(tensor.dtype).block_elements) /
                     static_cast<std::size_t>(info(tensor.dtype).block_bytes);
  std::vector<float> values(count);
  const auto half = [&](std::size_t i) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, tensor.bytes.data() + 2 * i, sizeof bits);
    return bits;
  };
  switch (tensor.dtype) {
    case DType::kF32:
      std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
      break;
    case DType::kF16:
      for (std::size_t i = 0; i < count; ++i) values[i] = f16_to_f32(half(i));
      break;
    case DType::kBF16:
      for (std::size_t i = 0; i < count; ++i) values[i] = bf16_to_f32(half(i));
      break;
    default:
      return unsupported(name, "a tensor of type " + std::string(info(tensor.dtype).name) +
                                   " is not supported; F32, F16 and BF16 are");
  }
  return values;
}

Result<> TensorFinder::begin_loading() {
  checking_ = false;
  if (problems_.empty()) return {};
  constexpr std::size_t kShown = 12;
  std::string text = std::to_string(problems_.size()) + " tensors do not fit the configuration: ";
  for (std::size_t i = 0; i < std::min(problems_.size(), kShown); ++i)
    text += (i == 0 ? "" : "; ") + problems_[i];
  if (problems_.size() > kShown) text += "; …";
  return corrupt(problems_.front().substr(0, problems_.front().find(' ')), text);
}

std::vector<std::string> TensorFinder::unused() const {
  std::vector<std::string> out;
  if (checkpoint_ == nullptr) return out;
  std::vector<std::string> sorted = used_;
  std::ranges::sort(sorted);
  for (const auto& name : checkpoint_->names())
    if (name != kReadByConfig && !(fp8_ && rounds(name)) && !std::ranges::binary_search(sorted, name))
      out.emplace_back(name);
  return out;
}

const weights::TensorView* TensorFinder::find(const std::string& name) const {
  return checkpoint_ == nullptr ? nullptr : checkpoint_->find(name);
}

const weights::TensorView* TensorFinder::invent(const std::string& name,
                                                const std::vector<std::int64_t>& shape) {
  const auto [at, added] = invented_.try_emplace(name, Invented{shape, {}});
  Invented& tensor = at->second;
  if (added) tensor.view = {.name = at->first, .dtype = DType::kBF16, .shape = tensor.shape, .bytes = {}};
  return &tensor.view;
}

const weights::TensorView* TensorFinder::require(const std::string& name,
                                                 const std::vector<std::int64_t>& shape) {
  if (checkpoint_ == nullptr) return invent(name, shape);
  if (checking_) used_.push_back(name);
  const weights::TensorView* tensor = checkpoint_->find(name);
  if (tensor == nullptr) {
    problems_.push_back(name + " is missing");
  } else if (!std::ranges::equal(tensor->shape, shape)) {
    problems_.push_back(name + " has shape " + shape_text({tensor->shape.begin(), tensor->shape.end()}) +
                        ", expected " + shape_text(shape));
    return nullptr;
  }
  return tensor;
}

TensorFinder::ScaleLayout TensorFinder::scale_layout(const MatrixName& matrix) const {
  using Granularity = config::Fp8Weights::Granularity;
  MET_CHECK(fp8_.has_value(), "E4M3 matrices that no configuration declares are refused by the check");
  const std::string name = matrix.name + "." + fp8_->scales;
  if (fp8_->granularity == Granularity::kTensor) return {name, matrix.n, 1};
  if (fp8_->granularity == Granularity::kRow) return {name, 1, 1};
  return {name, config::kFp8Block, (matrix.k + config::kFp8Block - 1) / config::kFp8Block};
}

Result<std::vector<float>> TensorFinder::read_scales(const MatrixName& matrix) const {
  const std::string name = scale_layout(matrix).name;
  MET_ASSIGN(std::vector<float> scales, read_floats(name, *find(name)));
  if (!std::ranges::all_of(scales, [](float v) { return std::isfinite(v); }))
    return corrupt(name, name + " holds a value that is not finite");
  return scales;
}

void TensorFinder::require_scales(const MatrixName& matrix) {
  const std::string weight = weight_of(matrix) + " has type F8_E4M3";
  if (!fp8_) return report(weight + ", which config.json's quantization_config does not declare");
  if (excludes(*fp8_, matrix.name)) return report(weight + ", but quantization_config excludes this matrix");
  const ScaleLayout layout = scale_layout(matrix);
  used_.push_back(layout.name);
  const weights::TensorView* scales = checkpoint_->find(layout.name);
  if (scales == nullptr) return report(layout.name + " is missing");
  const std::int64_t rows = (matrix.n + layout.rows - 1) / layout.rows;
  // A scale a matrix is [] or [1], a scale a row [n] or [n, 1].
  std::vector<std::int64_t> shape(scales->shape.begin(), scales->shape.end());
  if (shape.empty()) shape.push_back(1);
  if (shape.size() == 1) shape.push_back(1);
  if (shape != std::vector{rows, layout.groups})
    report(layout.name + " has shape " + shape_text({scales->shape.begin(), scales->shape.end()}) +
           ", expected " + shape_text({rows, layout.groups}));
  else if (!is_plain_float(scales->dtype))
    report(layout.name + " has type " + std::string(info(scales->dtype).name) +
           ", expected F32, F16 or BF16");
}

std::optional<float> TensorFinder::cache_scale(const std::string& projection, std::string_view name) {
  const std::string module = projection.substr(0, projection.rfind('.') + 1);
  for (const std::string& at :
       {projection + "." + std::string(name), projection + ".output_scale", module + std::string(name),
        module + "attn." + std::string(name), module + "kv_scale"}) {
    const weights::TensorView* tensor = find(at);
    if (tensor == nullptr) continue;
    if (checking_) used_.push_back(at);
    const std::string value = at + " is no scale of a cache: ";
    const auto count =
        std::accumulate(tensor->shape.begin(), tensor->shape.end(), std::int64_t{1}, std::multiplies<>());
    if (count != 1 || !is_plain_float(tensor->dtype)) {
      report(value + "it has type " + std::string(info(tensor->dtype).name) + " and shape " +
             shape_text({tensor->shape.begin(), tensor->shape.end()}) +
             ", supported is one number in F32, F16 or BF16");
      return 1.0F;
    }
    const float scale = read_floats(at, *tensor)->front();
    if (!(scale > 0) || !std::isfinite(1.0F / scale) || !std::isfinite(scale))
      report(value + std::to_string(scale) + " is not positive and finite");
    return scale;
  }
  return std::nullopt;
}

ops::KvScales TensorFinder::cache_scales(const std::string& key, const std::string& value) {
  const std::optional<float> k = cache_scale(key, "k_scale");
  const std::optional<float> v = cache_scale(value, "v_scale");
  if (k.has_value() != v.has_value())
    report((k ? key + " has a scale of the cache, but " + value
              : value + " has a scale of the cache, but " + key) +
           " has none");
  if (checking_ && k && v) ++scaled_caches_;
  return {.k = k.value_or(1.0F), .v = v.value_or(1.0F)};
}

const weights::TensorView* TensorFinder::require_matrix(const MatrixName& matrix) {
  const weights::TensorView* tensor = require(weight_of(matrix), {matrix.n, matrix.k});
  if (checking_ && tensor != nullptr && tensor->dtype == DType::kF8E4M3) require_scales(matrix);
  return tensor;
}

const weights::TensorView* TensorFinder::require_vector(const std::string& name, std::int64_t size) {
  const weights::TensorView* tensor = require(name, {size});
  if (checking_ && tensor != nullptr && !is_plain_float(tensor->dtype))
    problems_.push_back(name + " has type " + std::string(info(tensor->dtype).name) +
                        ", expected F32, F16 or BF16");
  return tensor;
}

}  // namespace met::layers
