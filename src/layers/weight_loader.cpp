#include "layers/weight_loader.h"

#include <algorithm>
#include <atomic>
#include <thread>

namespace met::layers {

namespace {

// Frequency factors of GGUF files: part of the configuration, not of the weights.
constexpr std::string_view kReadByConfig = "rope_freqs.weight";

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text = "[";
  for (const std::int64_t d : shape) text += (text.size() > 1 ? ", " : "") + std::to_string(d);
  return text + "]";
}

std::string weight_of(const MatrixName& matrix) { return matrix.name + ".weight"; }

// Values of a plain float tensor.
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
      return unsupported(name, "a vector of type " + std::string(info(tensor.dtype).name) +
                                   " is not supported; F32, F16 and BF16 are");
  }
  return values;
}

}  // namespace

Result<> WeightLoader::begin_loading() {
  checking_ = false;
  if (problems_.empty()) return {};
  constexpr std::size_t kShown = 12;
  std::string text = std::to_string(problems_.size()) + " tensors do not fit the configuration: ";
  for (std::size_t i = 0; i < std::min(problems_.size(), kShown); ++i)
    text += (i == 0 ? "" : "; ") + problems_[i];
  if (problems_.size() > kShown) text += "; …";
  return corrupt(problems_.front().substr(0, problems_.front().find(' ')), text);
}

std::vector<std::string> WeightLoader::unused() const {
  std::vector<std::string> sorted = used_;
  std::ranges::sort(sorted);
  std::vector<std::string> out;
  for (const auto& name : checkpoint_.names())
    if (name != kReadByConfig && !std::ranges::binary_search(sorted, name)) out.emplace_back(name);
  return out;
}

const weights::TensorView* WeightLoader::require(const std::string& name,
                                                 const std::vector<std::int64_t>& shape) {
  if (checking_) used_.push_back(name);
  const weights::TensorView* tensor = checkpoint_.find(name);
  if (tensor == nullptr) {
    problems_.push_back(name + " is missing");
  } else if (!std::ranges::equal(tensor->shape, shape)) {
    problems_.push_back(name + " has shape " + shape_text({tensor->shape.begin(), tensor->shape.end()}) +
                        ", expected " + shape_text(shape));
    return nullptr;
  }
  return tensor;
}

const weights::TensorView* WeightLoader::require_vector(const std::string& name, std::int64_t size) {
  const weights::TensorView* tensor = require(name, {size});
  if (checking_ && tensor != nullptr && tensor->dtype != DType::kF32 && tensor->dtype != DType::kF16 &&
      tensor->dtype != DType::kBF16)
    problems_.push_back(name + " has type " + std::string(info(tensor->dtype).name) +
                        ", expected F32, F16 or BF16");
  return tensor;
}

void WeightLoader::plan_for(const ops::LinearPack& pack) {
  total_ += pack.packed_bytes;
  workspace_row_bytes_ = std::max(workspace_row_bytes_, pack.workspace_row_bytes);
}

void WeightLoader::advance(std::size_t bytes) {
  done_ += bytes;
  if (options_.progress) options_.progress(done_, total_);
}

Result<gpu::DeviceMemory> WeightLoader::pack(const ops::LinearPack& plan,
                                             const std::vector<const weights::TensorView*>& tensors) {
  std::vector<ops::LinearPart> parts;
  for (const auto* tensor : tensors)
    parts.push_back({.rows = tensor->bytes.data(),
                     .row_bytes = bytes_of(plan.type, static_cast<std::size_t>(plan.k)),
                     .n = tensor->shape[0]});
  MET_ASSIGN(gpu::DeviceMemory memory, gpu::DeviceMemory::allocate(device_, plan.packed_bytes, "weights"));
  const bool direct = device_.info().unified_memory;
  std::vector<std::byte> staging(direct ? 0 : plan.packed_bytes);
  std::byte* packed = direct ? reinterpret_cast<std::byte*>(memory.data().value) : staging.data();

  constexpr std::int64_t kTilesAClaim = 8;
  std::atomic<std::int64_t> next{0};
  const auto work = [&] {
    for (std::int64_t begin = next.fetch_add(kTilesAClaim); begin < plan.tiles;
         begin = next.fetch_add(kTilesAClaim))
      ops::pack_linear(plan, parts, packed, begin, std::min(begin + kTilesAClaim, plan.tiles));
  };
  {
    std::vector<std::jthread> others;
    for (int i = 1; i < options_.threads && plan.tiles > kTilesAClaim; ++i) others.emplace_back(work);
    work();
  }
  if (!direct) MET_TRY(device_.copy_to_device(memory.data(), packed, plan.packed_bytes));
  for (const auto* tensor : tensors) checkpoint_.release(*tensor);
  advance(plan.packed_bytes);
  return memory;
}

Result<gpu::DeviceMemory> WeightLoader::load_bias(const std::vector<MatrixName>& matrices) {
  if (std::ranges::none_of(matrices, &MatrixName::bias)) return gpu::DeviceMemory{};
  std::vector<float> values;
  for (const MatrixName& matrix : matrices) {
    const std::string name = matrix.name + ".bias";
    const weights::TensorView* tensor = require_vector(name, matrix.n);
    if (checking_ || tensor == nullptr) continue;
    MET_ASSIGN(const std::vector<float> own, read_floats(name, *tensor));
    values.insert(values.end(), own.begin(), own.end());
  }
  if (checking_) return gpu::DeviceMemory{};
  return upload(values, "weights");
}

Result<Projection::Part> WeightLoader::load_part(const std::vector<MatrixName>& matrices, bool gated,
                                                 ops::LinearShape shape, std::int64_t column) {
  Projection::Part part;
  part.column = column;
  std::vector<const weights::TensorView*> tensors;
  std::int64_t n = 0;
  for (const MatrixName& matrix : matrices) {
    tensors.push_back(checkpoint_.find(weight_of(matrix)));
    n += matrix.n;
  }
  MET_ASSIGN(const ops::LinearPack plan,
             ops::plan_linear_pack(tensors[0]->dtype, n, matrices[0].k, options_.activations, gated));
  MET_ASSIGN(part.bias, load_bias(matrices));
  if (checking_) {
    plan_for(plan);
    return part;
  }
  MET_ASSIGN(part.plan, ops::plan_linear(device_, plan, shape));
  MET_ASSIGN(part.weights, pack(plan, tensors));
  return part;
}

Result<Projection> WeightLoader::projection(const std::vector<MatrixName>& matrices, const std::string& norm,
                                            ops::LinearShape shape) {
  gpu::DeviceMemory norm_weight;
  if (!norm.empty()) {
    MET_ASSIGN(norm_weight, vector(norm, matrices[0].k));
  }
  bool complete = true;
  for (const MatrixName& matrix : matrices)
    complete = require(weight_of(matrix), {matrix.n, matrix.k}) != nullptr && complete;
  if (!complete) return Projection{};

  std::vector<Projection::Part> parts;
  std::int64_t column = 0;
  for (std::size_t begin = 0; begin < matrices.size();) {  // neighbours of one type are one matrix
    const DType type = checkpoint_.find(weight_of(matrices[begin]))->dtype;
    std::size_t end = begin;
    std::vector<MatrixName> run;
    std::int64_t n = 0;
    while (end < matrices.size() && checkpoint_.find(weight_of(matrices[end]))->dtype == type) {
      n += matrices[end].n;
      run.push_back(matrices[end++]);
    }
    MET_ASSIGN(Projection::Part part, load_part(run, /*gated=*/false, shape, column));
    parts.push_back(std::move(part));
    column += n;
    begin = end;
  }
  if (checking_) return Projection{};
  return Projection(std::move(parts), std::move(norm_weight), /*gated=*/false);
}

Result<Projection> WeightLoader::gate_up(const MatrixName& gate, const MatrixName& up,
                                         const std::string& norm, ops::LinearShape shape,
                                         Epilogue activation) {
  const weights::TensorView* a = checkpoint_.find(weight_of(gate));
  const weights::TensorView* b = checkpoint_.find(weight_of(up));
  if (a == nullptr || b == nullptr || a->dtype != b->dtype) {
    shape.ldy = gate.n + up.n;
    return projection({gate, up}, norm, shape);
  }
  MET_ASSIGN(gpu::DeviceMemory norm_weight, vector(norm, gate.k));
  const bool complete = require(weight_of(gate), {gate.n, gate.k}) != nullptr;
  if (require(weight_of(up), {up.n, up.k}) == nullptr || !complete) return Projection{};
  shape.epilogue = activation;
  std::vector<Projection::Part> parts(1);
  MET_ASSIGN(parts[0], load_part({gate, up}, /*gated=*/true, shape, 0));
  if (checking_) return Projection{};
  return Projection(std::move(parts), std::move(norm_weight), /*gated=*/true);
}

Result<gpu::DeviceMemory> WeightLoader::vector(const std::string& name, std::int64_t size) {
  const weights::TensorView* tensor = require_vector(name, size);
  if (checking_ || tensor == nullptr) return gpu::DeviceMemory{};
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
  const weights::TensorView* tensor = require(weight_of(matrix), {matrix.n, matrix.k});
  if (tensor == nullptr) return table;
  MET_ASSIGN(table.pack, ops::plan_linear_pack(tensor->dtype, matrix.n, matrix.k, options_.activations));
  if (checking_) {
    plan_for(table.pack);
    table_bytes_ += table.pack.packed_bytes;
  } else {
    MET_ASSIGN(table.data, pack(table.pack, {tensor}));
  }
  return table;
}

}  // namespace met::layers
