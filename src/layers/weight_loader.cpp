#include "layers/weight_loader.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <thread>

namespace met::layers {

void WeightLoader::plan_for(const ops::LinearPack& pack, std::size_t bytes, std::size_t rows_per_token) {
  total_ += bytes;
  workspace_row_bytes_ = std::max(workspace_row_bytes_, pack.workspace_row_bytes * rows_per_token);
}

void WeightLoader::advance(std::size_t bytes) {
  done_ += bytes;
  if (options_.progress) options_.progress(done_, total_);
}

Result<> WeightLoader::open_cache() {
  if (options_.repack_cache.empty() || done_ != 0) return {};
  const std::string variant = "1 " + device_.info().hardware + " " + device_.info().arch;
  const RepackCache::Key key = RepackCache::key_of(checkpoint_, variant, options_.threads);
  MET_ASSIGN(cache_, RepackCache::open(options_.repack_cache, key, total_, options_.threads));
  return {};
}

Result<ops::LinearPart> WeightLoader::source(const MatrixName& matrix,
                                             std::deque<std::vector<float>>& scales) const {
  const weights::TensorView& tensor = *finder_.find(weight_of(matrix));
  ops::LinearPart part{.rows = tensor.bytes.data(),
                       .row_bytes = bytes_of(tensor.dtype, static_cast<std::size_t>(matrix.k)),
                       .n = matrix.n,
                       .scales = {}};
  if (tensor.dtype != DType::kF8E4M3) return part;
  MET_ASSIGN(scales.emplace_back(), finder_.read_scales(matrix));
  const TensorFinder::ScaleLayout layout = finder_.scale_layout(matrix);
  part.scales = {.values = scales.back(), .rows = layout.rows, .groups = layout.groups};
  return part;
}

Result<gpu::DeviceMemory> WeightLoader::pack(const ops::LinearPack& plan,
                                             const std::vector<MatrixName>& matrices) {
  Packing packing;
  std::deque<std::vector<float>> scales;
  for (const MatrixName& matrix : matrices) {
    MET_ASSIGN(packing.parts.emplace_back(), source(matrix, scales));
  }
  MET_ASSIGN(gpu::DeviceMemory memory, pack_all(plan, std::span(&packing, 1), plan.packed_bytes));
  for (const MatrixName& matrix : matrices) finder_.release(*finder_.find(weight_of(matrix)));
  return memory;
}

Result<gpu::DeviceMemory> WeightLoader::pack_all(const ops::LinearPack& plan, std::span<const Packing> all,
                                                 std::size_t bytes) {
  MET_TRY(open_cache());
  MET_ASSIGN(gpu::DeviceMemory memory, gpu::DeviceMemory::allocate(device_, bytes, "weights"));
  const bool direct = device_.info().unified_memory;
  std::vector<std::byte> staging(direct ? 0 : bytes);
  std::byte* packed = direct ? reinterpret_cast<std::byte*>(memory.data().value) : staging.data();

  constexpr std::int64_t kTilesAClaim = 8;
  const std::int64_t claims = (plan.tiles + kTilesAClaim - 1) / kTilesAClaim;  // of one matrix
  const std::int64_t claims_all = claims * std::ssize(all);
  std::atomic<std::int64_t> next{0};
  const auto work = [&] {
    for (std::int64_t claim = next++; claim < claims_all; claim = next++) {
      const Packing& own = all[static_cast<std::size_t>(claim / claims)];
      const std::int64_t begin = claim % claims * kTilesAClaim;
      ops::pack_linear(plan, own.parts, packed + own.offset, begin,
                       std::min(begin + kTilesAClaim, plan.tiles));
    }
  };
  if (cache_ == nullptr || !cache_->take({packed, bytes})) {
    {
      std::vector<std::jthread> others;
      for (int i = 1; i < options_.threads && i < claims_all; ++i) others.emplace_back(work);
      work();
    }
    if (cache_ != nullptr) cache_->put({packed, bytes});
  }
  if (!direct) MET_TRY(device_.copy_to_device(memory.data(), packed, bytes));
  advance(bytes);
  if (cache_ != nullptr && done_ == total_) {
    cache_->finish();
    cache_.reset();
  }
  return memory;
}

Result<gpu::DeviceMemory> WeightLoader::load_bias(const std::vector<MatrixName>& matrices) {
  if (std::ranges::none_of(matrices, &MatrixName::bias)) return gpu::DeviceMemory{};
  std::vector<float> values;
  for (const MatrixName& matrix : matrices) {
    const std::string name = matrix.name + ".bias";
    const weights::TensorView* tensor = finder_.require_vector(name, matrix.n);
    if (checking() || tensor == nullptr) continue;
    MET_ASSIGN(const std::vector<float> own, read_floats(name, *tensor));
    values.insert(values.end(), own.begin(), own.end());
  }
  if (checking()) return gpu::DeviceMemory{};
  return upload(values, "weights");
}

Result<Projection::Part> WeightLoader::load_part(const std::vector<MatrixName>& matrices, bool gated,
                                                 ops::LinearShape shape, std::int64_t column) {
  Projection::Part part;
  part.column = column;
  std::int64_t n = 0;
  for (const MatrixName& matrix : matrices) n += matrix.n;
  const DType type = finder_.find(weight_of(matrices[0]))->dtype;
  MET_ASSIGN(const ops::LinearPack plan,
             ops::plan_linear_pack(type, n, matrices[0].k, options_.activations, gated));
  MET_ASSIGN(part.bias, load_bias(matrices));
  if (checking()) {
    plan_for(plan, plan.packed_bytes);
    return part;
  }
  MET_ASSIGN(part.plan, ops::plan_linear(device_, plan, shape));
  MET_ASSIGN(part.weights, pack(plan, matrices));
  return part;
}

Result<Projection> WeightLoader::projection(const std::vector<MatrixName>& matrices, const std::string& norm,
                                            ops::LinearShape shape) {
  gpu::DeviceMemory norm_weight;
  if (!norm.empty()) {
    MET_ASSIGN(norm_weight, vector(norm, matrices[0].k));
  }
  bool complete = true;
  for (const MatrixName& matrix : matrices) complete = finder_.require_matrix(matrix) != nullptr && complete;
  if (!complete) return Projection{};

  std::vector<Projection::Part> parts;
  std::int64_t column = 0;
  for (std::size_t begin = 0; begin < matrices.size();) {  // neighbours of one type are one matrix
    const DType type = finder_.find(weight_of(matrices[begin]))->dtype;
    std::size_t end = begin;
    std::vector<MatrixName> run;
    std::int64_t n = 0;
    while (end < matrices.size() && finder_.find(weight_of(matrices[end]))->dtype == type) {
      n += matrices[end].n;
      run.push_back(matrices[end++]);
    }
    MET_ASSIGN(Projection::Part part, load_part(run, /*gated=*/false, shape, column));
    parts.push_back(std::move(part));
    column += n;
    begin = end;
  }
  if (checking()) return Projection{};
  return Projection(std::move(parts), std::move(norm_weight), /*gated=*/false);
}

Result<Projection> WeightLoader::gate_up(const MatrixName& gate, const MatrixName& up,
                                         const std::string& norm, ops::LinearShape shape,
                                         Epilogue activation) {
  const weights::TensorView* a = finder_.find(weight_of(gate));
  const weights::TensorView* b = finder_.find(weight_of(up));
  if (a == nullptr || b == nullptr || a->dtype != b->dtype) {
    shape.ldy = gate.n + up.n;
    return projection({gate, up}, norm, shape);
  }
  MET_ASSIGN(gpu::DeviceMemory norm_weight, vector(norm, gate.k));
  const bool complete = finder_.require_matrix(gate) != nullptr;
  if (finder_.require_matrix(up) == nullptr || !complete) return Projection{};
  shape.epilogue = activation;
  std::vector<Projection::Part> parts(1);
  MET_ASSIGN(parts[0], load_part({gate, up}, /*gated=*/true, shape, 0));
  if (checking()) return Projection{};
  return Projection(std::move(parts), std::move(norm_weight), /*gated=*/true);
}

Result<gpu::DeviceMemory> WeightLoader::vector(const std::string& name, std::int64_t size) {
  const weights::TensorView* tensor = finder_.require_vector(name, size);
  if (checking() || tensor == nullptr) return gpu::DeviceMemory{};
  MET_ASSIGN(const std::vector<float> values, read_floats(name, *tensor));
  return upload(values, "weights");
}

Result<gpu::DeviceMemory> WeightLoader::upload(std::span<const float> values, std::string_view site) {
  MET_ASSIGN(gpu::DeviceMemory memory, gpu::DeviceMemory::allocate(device_, values.size_bytes(), site));
  MET_TRY(device_.copy_to_device(memory.data(), values.data(), values.size_bytes()));
  return memory;
}

Result<WeightLoader::Table> WeightLoader::table(const MatrixName& matrix) {
  Table table;
  const weights::TensorView* tensor = finder_.require_matrix(matrix);
  if (tensor == nullptr) return table;
  MET_ASSIGN(table.pack, ops::plan_linear_pack(tensor->dtype, matrix.n, matrix.k, options_.activations));
  if (table.pack.embedding_entry.empty())
    return unsupported(weight_of(matrix), weight_of(matrix) + " has type " +
                                              std::string(info(tensor->dtype).name) +
                                              ", of which the CPU kernels read no single rows");
  if (checking()) {
    plan_for(table.pack, table.pack.packed_bytes);
    table_bytes_ += table.pack.packed_bytes;
  } else {
    MET_ASSIGN(table.data, pack(table.pack, {matrix}));
  }
  return table;
}

}  // namespace met::layers
