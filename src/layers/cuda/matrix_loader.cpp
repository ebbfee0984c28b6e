#include "layers/cuda/matrix_loader.h"

#include <algorithm>
#include <array>

#include "core/log.h"
#include "met/cuda_ops.h"
#include "ops/cuda/dummy_weights.h"
#include "ops/cuda/pack_e4m3.h"
#include "ops/cuda/quantise.h"

namespace met::layers::cuda {

namespace {

bool is_e4m3(const RowSource& source) {
  return source.tensor != nullptr && source.tensor->dtype == DType::kF8E4M3;
}

std::vector<MatrixName> of_experts(std::span<const MatrixName> matrices, int count) {
  constexpr std::string_view kNumber = "{}";
  std::vector<MatrixName> all;
  for (int e = 0; e < count; ++e)
    for (MatrixName matrix : matrices) {
      matrix.name.replace(matrix.name.find(kNumber), kNumber.size(), std::to_string(e));
      all.push_back(std::move(matrix));
    }
  return all;
}

/// Whether the kernels read the stack's E4M3 as it is.
bool stays_e4m3(const RowStack& stack) {
  if (!std::ranges::all_of(stack.sources, is_e4m3) || stack.k % kE4m3Granule != 0) return false;
  return stack.sources[0].scale_groups == 1 || blocks_fit(stack);
}

}  // namespace

Result<DeviceMatrix> MatrixLoader::matrix(const std::vector<MatrixName>& matrices, bool keep) {
  return load(matrices, {.keep = keep});
}

Result<DeviceMatrix> MatrixLoader::table(const MatrixName& matrix) {
  const std::size_t before = total_;
  MET_ASSIGN(DeviceMatrix out, load({matrix}, {.keep = true}));
  table_bytes_ += total_ - before;
  return out;
}

Result<DeviceMatrix> MatrixLoader::gated(const MatrixName& gate, const MatrixName& up) {
  if (gate.n % kGatedGroup != 0)
    return unsupported("intermediate_size",
                       "intermediate_size " + std::to_string(gate.n) + " is not a multiple of 8");
  return load({gate, up}, {.gated = true});
}

Result<DeviceMatrix> MatrixLoader::load_experts(std::span<const MatrixName> matrices, int count) {
  const std::size_t before = total_;
  MET_ASSIGN(DeviceMatrix out,
             load(of_experts(matrices, count), {.gated = matrices.size() == 2, .experts = true}));
  expert_bytes_ += total_ - before;
  return out;
}

Result<DeviceMatrix> MatrixLoader::experts(const MatrixName& matrix, int count) {
  return load_experts({&matrix, 1}, count);
}

Result<DeviceMatrix> MatrixLoader::gated_experts(const MatrixName& gate, const MatrixName& up, int count) {
  if (gate.n % kGatedGroup != 0)
    return unsupported("moe_intermediate_size",
                       "moe_intermediate_size " + std::to_string(gate.n) + " is not a multiple of 8");
  return load_experts(std::array{gate, up}, count);
}

RowStack MatrixLoader::find(const std::vector<MatrixName>& matrices, const Form& form) {
  RowStack stack{.sources = {}, .k = matrices[0].k, .gated = form.gated, .experts = form.experts};
  for (const MatrixName& matrix : matrices) {
    const weights::TensorView* tensor = finder_.require_matrix(matrix);
    RowSource& source = stack.sources.emplace_back(RowSource{.tensor = tensor, .rows = matrix.n});
    if (tensor == nullptr) continue;
    if (tensor->dtype == DType::kF8E4M3 && finder_.scales_declared()) {
      const TensorFinder::ScaleLayout layout = finder_.scale_layout(matrix);
      source.scale_rows = layout.rows;
      source.scale_groups = layout.groups;
    }
    if (checking() && !is_plain_float(tensor->dtype) && tensor->dtype != DType::kF8E4M3)
      finder_.report(weight_of(matrix) + " has type " + std::string(info(tensor->dtype).name) +
                     ", the CUDA kernels read BF16, F16, F32 and F8_E4M3");
  }
  return stack;
}

Result<> MatrixLoader::read_scales(const std::vector<MatrixName>& matrices, RowStack& stack) const {
  for (std::size_t i = 0; i < matrices.size(); ++i) {
    if (!is_e4m3(stack.sources[i])) continue;
    MET_ASSIGN(stack.sources[i].scales, finder_.read_scales(matrices[i]));
  }
  return {};
}

Result<DeviceMatrix> MatrixLoader::plan(const MatrixName& first, const RowStack& stack, bool keep) const {
  DeviceMatrix out{.n = stack.rows(), .k = stack.k};
  if (out.k % 8 != 0)
    return unsupported(weight_of(first), "rows of " + std::to_string(out.k) +
                                             " values are not a multiple of 8, as the CUDA kernels need");
  const bool aligned = out.k % kE4m3Granule == 0;
  if (keep) return out;
  if (options_.quantize && !aligned)
    return unsupported("--quantization", weight_of(first) + " has rows of " + std::to_string(out.k) +
                                             " values, which are not a multiple of 16, as fp8 needs");
  const bool stays = stays_e4m3(stack);
  // What stands for an FP8 checkpoint is made E4M3 as well.
  const bool invented = finder_.invented() && finder_.scales_declared() && aligned;
  if (!stays && !options_.quantize && !invented) return out;
  if (out.k > ops::cuda::kQuantiseMax && !options_.quantize) return out;
  out.type = DType::kF8E4M3;
  out.block_scales = stays && stack.sources[0].scale_groups > 1;
  return out;
}

Result<DeviceMatrix> MatrixLoader::load(const std::vector<MatrixName>& matrices, const Form& form) {
  RowStack stack = find(matrices, form);
  MET_ASSIGN(DeviceMatrix out, plan(matrices[0], stack, form.keep));
  MET_ASSIGN(out.bias, load_bias(matrices, stack));
  const bool e4m3 = out.type == DType::kF8E4M3;
  const auto scales =
      static_cast<std::size_t>(!e4m3              ? 0
                               : out.block_scales ? block_scale_rows(stack) * stack.sources[0].scale_groups
                                                  : out.n);
  const std::size_t bytes = bytes_of(out.type, static_cast<std::size_t>(out.n * out.k));
  if (checking()) {
    total_ += bytes + scales * sizeof(float);
    return out;
  }
  MET_CHECK(std::ranges::all_of(stack.sources, &RowSource::tensor), "loading what the check has refused");
  MET_TRY(read_scales(matrices, stack));
  MET_ASSIGN(out.data, gpu::DeviceMemory::allocate(device_, bytes, "weights"));
  Upload upload{.to = out.data.data(), .type = out.type, .stack = {}, .quantized = {}, .scales = {}};
  if (!e4m3) {
    widened_ += static_cast<std::size_t>(std::ranges::count_if(stack.sources, is_e4m3));
  } else if (stays_e4m3(stack)) {
    MET_ASSIGN(out.scales,
               this->upload(out.block_scales ? block_scales(stack) : row_scales(stack), "weights"));
  } else {
    MET_ASSIGN(out.scales, gpu::DeviceMemory::allocate(device_, scales * sizeof(float), "weights"));
    upload.type = DType::kBF16;
    upload.quantized = out.data.data();
    upload.scales = out.scales.data();
  }
  upload.stack = std::move(stack);
  uploads_.push_back(std::move(upload));
  return out;
}

Result<gpu::DeviceMemory> MatrixLoader::load_bias(const std::vector<MatrixName>& matrices,
                                                  const RowStack& stack) {
  if (std::ranges::none_of(matrices, &MatrixName::bias)) return gpu::DeviceMemory{};
  std::vector<std::vector<float>> parts;
  for (const MatrixName& matrix : matrices) {
    const std::string name = matrix.name + ".bias";
    const weights::TensorView* tensor = finder_.require_vector(name, matrix.n);
    std::vector<float> values(static_cast<std::size_t>(matrix.n), 0.0F);
    if (!checking() && tensor != nullptr && !finder_.invented()) {
      MET_ASSIGN(values, read_floats(name, *tensor));
    }
    parts.push_back(std::move(values));
  }
  if (checking()) return gpu::DeviceMemory{};
  std::vector<float> all;
  const std::int64_t rows = stack.rows();
  for (std::int64_t r = 0; r < rows; ++r) {
    const RowAt at = row_at(stack, r);
    all.push_back(parts[at.source][static_cast<std::size_t>(at.row)]);
  }
  return upload(all, "weights");
}

Result<gpu::DeviceMemory> MatrixLoader::vector(const std::string& name, std::int64_t size, float offset) {
  const weights::TensorView* tensor = finder_.require_vector(name, size);
  if (checking()) {
    total_ += static_cast<std::size_t>(size) * sizeof(float);
    return gpu::DeviceMemory{};
  }
  std::vector<float> values(static_cast<std::size_t>(size), 1.0F - offset);  // an invented norm is neutral
  if (!finder_.invented()) {
    MET_ASSIGN(values, read_floats(name, *tensor));
  }
  for (float& v : values) v += offset;
  return upload(values, "weights");
}

Result<gpu::DeviceMemory> MatrixLoader::upload(std::span<const float> values, std::string_view site) {
  MET_ASSIGN(gpu::DeviceMemory memory, gpu::DeviceMemory::allocate(device_, values.size_bytes(), site));
  MET_TRY(device_.copy_to_device(memory.data(), values.data(), values.size_bytes()));
  return memory;
}

Result<> MatrixLoader::finish() {
  const auto plain = std::ranges::partition(uploads_, [](const Upload& u) { return bool(u.quantized); });
  MET_TRY(finder_.invented() ? fill_at_random(plain) : fill_from_files(plain));
  MET_TRY(quantize_all());
  if (widened_ > 0)
    log::info(std::to_string(widened_) + " FP8 matrices that the device's kernels do not read became BF16");
  uploads_.clear();
  return {};
}

// One matrix after another through a buffer of BF16 values.
Result<> MatrixLoader::quantize_all() {
  std::int64_t largest = 0;
  for (const Upload& upload : uploads_)
    if (upload.quantized) largest = std::max(largest, upload.stack.rows() * upload.stack.k);
  if (largest == 0) return {};
  MET_ASSIGN(const ops::cuda::PackE4m3Plan pack, ops::cuda::plan_pack_e4m3(device_));
  MET_ASSIGN(const gpu::DeviceMemory buffer,
             gpu::DeviceMemory::allocate(device_, bytes_of(DType::kBF16, static_cast<std::size_t>(largest)),
                                         "weights"));
  for (Upload& upload : uploads_) {
    if (!upload.quantized) continue;
    upload.to = buffer.data();
    const std::span<const Upload> one(&upload, 1);
    MET_TRY(finder_.invented() ? fill_at_random(one) : fill_from_files(one));
    MET_TRY(ops::cuda::pack_e4m3(pack, buffer.data(), upload.quantized, upload.scales, upload.stack.rows(),
                                 upload.stack.k, device_.default_stream()));
    MET_TRY(device_.synchronize(device_.default_stream()));
  }
  return {};
}

Result<> MatrixLoader::fill_from_files(std::span<const Upload> uploads) {
  std::vector<Uploader::Piece> pieces;
  for (const Upload& upload : uploads) {
    const std::size_t row_bytes = bytes_of(upload.type, static_cast<std::size_t>(upload.stack.k));
    const std::int64_t n = upload.stack.rows();
    const auto rows = static_cast<std::int64_t>(Uploader::kPieceBytes / row_bytes);
    MET_CHECK(rows > 0, "a row of weights is longer than a piece of an upload");
    for (std::int64_t begin = 0; begin < n; begin += rows) {
      const std::int64_t end = std::min(begin + rows, n);
      pieces.push_back({.to = upload.to + static_cast<std::size_t>(begin) * row_bytes,
                        .bytes = static_cast<std::size_t>(end - begin) * row_bytes,
                        .fill = [&upload, begin, end](std::byte* staging) {
                          write_rows(upload.stack, upload.type, begin, end, staging);
                        }});
    }
  }
  MET_TRY(uploader_.run(pieces, [&](std::size_t bytes) {
    done_ += bytes;
    if (options_.progress) options_.progress(std::min(done_, total_), total_);
  }));
  for (const Upload& upload : uploads)
    for (const RowSource& source : upload.stack.sources) finder_.release(*source.tensor);
  return {};
}

Result<> MatrixLoader::fill_at_random(std::span<const Upload> uploads) {
  MET_ASSIGN(const ops::cuda::DummyWeightsPlan plan, ops::cuda::plan_dummy_weights(device_));
  for (const Upload& upload : uploads)
    MET_TRY(ops::cuda::dummy_weights(plan, upload.to,
                                     static_cast<std::size_t>(upload.stack.rows() * upload.stack.k), ++seed_,
                                     device_.default_stream()));
  return device_.synchronize(device_.default_stream());
}

}  // namespace met::layers::cuda
