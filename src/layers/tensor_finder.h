// What a recipe asks of a checkpoint: tensors by name and shape, everything that is wrong with them, what is left over.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "config/model_config.h"
#include "ops/attention/attention.h"
#include "weights/checkpoint.h"

namespace met::layers {

/// One weight matrix by name: [n, k], and "<name without .weight>.bias" [n] where `bias`.
struct MatrixName {
  std::string name;  ///< without ".weight"
  std::int64_t n = 0;
  std::int64_t k = 0;
  bool bias = false;
};

/// Types that are values by themselves.
inline bool is_plain_float(DType type) {
  return type == DType::kF32 || type == DType::kF16 || type == DType::kBF16;
}

inline std::string weight_of(const MatrixName& matrix) { return matrix.name + ".weight"; }

/// A recipe is run twice over one checkpoint: first to check every name, shape and type and to add up the bytes that
/// loading will take (rule M1), then to load.
class TensorFinder {
 public:
  /// Without a checkpoint every tensor exists as BF16, with its shape and no bytes: weights that are invented.
  explicit TensorFinder(const weights::Checkpoint* checkpoint) : checkpoint_(checkpoint) {}

  /// How E4M3 matrices are scaled; told before the check.
  void declare(const config::ModelConfig& config) { fp8_ = config.fp8; }

  bool checking() const { return checking_; }
  /// Ends the check: kDataLoss that lists every missing or misshapen tensor, else loading begins.
  Result<> begin_loading();
  bool invented() const { return checkpoint_ == nullptr; }

  /// The tensor, or null where it is missing or has another shape: noted, and told by begin_loading.
  const weights::TensorView* require(const std::string& name, const std::vector<std::int64_t>& shape);
  /// For a matrix of E4M3, its scales are required too.
  const weights::TensorView* require_matrix(const MatrixName& matrix);
  /// How the scales of an E4M3 matrix lie in their tensor.
  struct ScaleLayout {
    std::string name;
    std::int64_t rows = 1;    ///< of the matrix that share scales
    std::int64_t groups = 1;  ///< scales along k: 1, or one each config::kFp8Block values
  };
  ScaleLayout scale_layout(const MatrixName& matrix) const;
  /// Whether E4M3 matrices are declared: only then they have scales.
  bool scales_declared() const { return fp8_.has_value(); }
  /// The scales of an E4M3 matrix, [ceil(n / rows), groups]. Errors: kDataLoss naming a tensor with a value that is not
  /// finite.
  Result<std::vector<float>> read_scales(const MatrixName& matrix) const;
  /// What calibration left for an E4M3 cache of the layer with these projections of keys and values: one number each,
  /// "<projection>.k_scale" (or "output_scale"), or "k_scale" beside the projection or in "attn" there, and as of keys so of
  /// values; or "kv_scale" beside them for both. 1 where there is none; one without the other is a fault.
  ops::KvScales cache_scales(const std::string& key, const std::string& value);
  /// Layers that have such scales; known after the check.
  int scaled_caches() const { return scaled_caches_; }
  /// The same for a vector of F32, F16 or BF16.
  const weights::TensorView* require_vector(const std::string& name, std::int64_t size);
  /// Whatever its shape, without noting anything.
  const weights::TensorView* find(const std::string& name) const;
  /// Notes what else is wrong with a tensor.
  void report(std::string problem) { problems_.push_back(std::move(problem)); }

  /// Tensors that no recipe asked for.
  std::vector<std::string> unused() const;
  /// Gives the tensor's pages back to the system.
  void release(const weights::TensorView& tensor) const {
    if (checkpoint_ != nullptr) checkpoint_->release(tensor);
  }

 private:
  std::optional<float> cache_scale(const std::string& projection, std::string_view name);
  void require_scales(const MatrixName& matrix);
  const weights::TensorView* invent(const std::string& name, const std::vector<std::int64_t>& shape);

  struct Invented {
    std::vector<std::int64_t> shape;
    weights::TensorView view;
  };

  const weights::Checkpoint* checkpoint_;
  std::optional<config::Fp8Weights> fp8_;
  bool checking_ = true;
  int scaled_caches_ = 0;
  std::vector<std::string> problems_;
  std::vector<std::string> used_;
  std::map<std::string, Invented> invented_;
};

/// Values of a float tensor as F32. Errors: kUnsupported naming it for other types.
Result<std::vector<float>> read_floats(const std::string& name, const weights::TensorView& tensor);

}  // namespace met::layers
