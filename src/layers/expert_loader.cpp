// WeightLoader's part for mixtures of experts.
#include <algorithm>

#include "layers/weight_loader.h"

namespace met::layers {

namespace {

constexpr std::string_view kNumber = "{}";

bool stacked(const MatrixName& matrix) { return matrix.name.find(kNumber) == std::string::npos; }

MatrixName of_expert(MatrixName matrix, int expert) {
  matrix.name.replace(matrix.name.find(kNumber), kNumber.size(), std::to_string(expert));
  return matrix;
}

std::string type_name(DType type) { return std::string(info(type).name); }

}  // namespace

// The one type of all tensors; nothing where a tensor is missing or differs, which the finder tells.
std::optional<DType> WeightLoader::expert_type(const std::vector<MatrixName>& matrices, int count) {
  std::optional<DType> type;
  bool complete = true;
  const auto look = [&](const std::string& name, const weights::TensorView* tensor) {
    if (tensor == nullptr) {
      complete = false;
      return;
    }
    if (!type) type = tensor->dtype;
    if (*type == tensor->dtype) return;
    complete = false;
    finder_.report(name + " has type " + type_name(tensor->dtype) +
                   ", but others of its layer's experts have " + type_name(*type));
  };
  for (const MatrixName& matrix : matrices) {
    if (!stacked(matrix)) {
      for (int e = 0; e < count; ++e) {
        const MatrixName own = of_expert(matrix, e);
        look(weight_of(own), finder_.require_matrix(own));
      }
      continue;
    }
    const std::string name = weight_of(matrix);
    look(name, finder_.require(name, {count, matrix.n, matrix.k}));
    if (type == DType::kF8E4M3) {
      complete = false;
      finder_.report(name +
                     " has type F8_E4M3, which is not supported for the experts of a layer in one tensor");
    }
  }
  return complete ? type : std::nullopt;
}

Result<std::vector<WeightLoader::Packing>> WeightLoader::expert_sources(
    const std::vector<MatrixName>& matrices, int count, DType type, std::size_t stride,
    std::deque<std::vector<float>>& scales) const {
  std::vector<Packing> all(static_cast<std::size_t>(count));
  for (std::size_t e = 0; e < all.size(); ++e) {
    all[e].offset = e * stride;
    for (const MatrixName& matrix : matrices) {
      ops::LinearPart& part = all[e].parts.emplace_back();
      if (!stacked(matrix)) {
        MET_ASSIGN(part, source(of_expert(matrix, static_cast<int>(e)), scales));
        continue;
      }
      part.row_bytes = bytes_of(type, static_cast<std::size_t>(matrix.k));
      part.n = matrix.n;
      part.rows = finder_.find(weight_of(matrix))->bytes.data() +
                  e * static_cast<std::size_t>(part.n) * part.row_bytes;
    }
  }
  return all;
}

Result<ExpertProjection> WeightLoader::experts(const std::vector<MatrixName>& matrices, int count,
                                               int per_token, ops::LinearShape shape) {
  const std::optional<DType> type = expert_type(matrices, count);
  if (!type) return ExpertProjection{};
  const bool gated = matrices.size() == 2;
  MET_ASSIGN(const ops::LinearPack plan,
             ops::plan_linear_pack(*type, gated ? 2 * matrices[0].n : matrices[0].n, matrices[0].k,
                                   options_.activations, gated));
  const std::size_t stride = ops::expert_stride(plan);
  const std::size_t bytes = stride * static_cast<std::size_t>(count);
  ExpertProjection out;
  if (checking()) {
    plan_for(plan, bytes, static_cast<std::size_t>(per_token));
    expert_bytes_ += bytes;
    return out;
  }
  MET_ASSIGN(out.plan, ops::plan_expert_linear(device_, plan, shape, count));
  std::deque<std::vector<float>> scales;
  MET_ASSIGN(const std::vector<Packing> all, expert_sources(matrices, count, *type, stride, scales));
  MET_ASSIGN(out.weights, pack_all(plan, all, bytes));
  for (const MatrixName& matrix : matrices) {
    const bool one = stacked(matrix);
    for (int e = 0; e < (one ? 1 : count); ++e)
      finder_.release(*finder_.find(weight_of(one ? matrix : of_expert(matrix, e))));
  }
  return out;
}

}  // namespace met::layers
