#include "layers/cuda/matrix_loader.h"

#include <algorithm>
#include <cstring>

#include "met/e4m3_order.h"
#include "ops/cuda/dummy_weights.h"
#include "ops/cuda/pack_e4m3.h"

namespace met::layers::cuda {

namespace {

constexpr std::int64_t kGatedGroup = 8;  // rows of gate, then as many of up
constexpr std::size_t kBf16Bytes = 2;

// One row as BF16.
void convert_row(DType type, const std::byte* from, std::int64_t k, std::byte* to) {
  const auto count = static_cast<std::size_t>(k);
  if (type == DType::kBF16) {
    std::memcpy(to, from, count * kBf16Bytes);
    return;
  }
  for (std::size_t i = 0; i < count; ++i) {
    float value = 0;
    if (type == DType::kF32) {
      std::memcpy(&value, from + 4 * i, sizeof value);
    } else {
      std::uint16_t half = 0;
      std::memcpy(&half, from + 2 * i, sizeof half);
      value = f16_to_f32(half);
    }
    const std::uint16_t bits = f32_to_bf16(value);
    std::memcpy(to + kBf16Bytes * i, &bits, sizeof bits);
  }
}

// Source row of packed row r, and which source.
struct RowAt {
  std::size_t source;
  std::int64_t row;
};
RowAt gated_row(std::int64_t r) {
  const std::int64_t pair = r / (2 * kGatedGroup);
  const std::int64_t within = r % (2 * kGatedGroup);
  return {within < kGatedGroup ? std::size_t{0} : std::size_t{1}, pair * kGatedGroup + within % kGatedGroup};
}

}  // namespace

Result<DeviceMatrix> MatrixLoader::matrix(const std::vector<MatrixName>& matrices, bool keep) {
  return load(matrices, /*gated=*/false, keep);
}

Result<DeviceMatrix> MatrixLoader::table(const MatrixName& matrix) {
  const std::size_t before = total_;
  MET_ASSIGN(DeviceMatrix out, load({matrix}, /*gated=*/false, /*keep=*/true));
  table_bytes_ += total_ - before;
  return out;
}

Result<DeviceMatrix> MatrixLoader::gated(const MatrixName& gate, const MatrixName& up) {
  if (gate.n % kGatedGroup != 0)
    return unsupported("intermediate_size",
                       "intermediate_size " + std::to_string(gate.n) + " is not a multiple of 8");
  return load({gate, up}, /*gated=*/true, /*keep=*/false);
}

Result<DeviceMatrix> MatrixLoader::load(const std::vector<MatrixName>& matrices, bool gated, bool keep) {
  DeviceMatrix out{.k = matrices[0].k};
  Upload upload{.k = out.k, .gated = gated};
  bool complete = true;
  for (const MatrixName& matrix : matrices) {
    const weights::TensorView* tensor = finder_.require_matrix(matrix);
    out.n += matrix.n;
    if (tensor == nullptr) {
      complete = false;
      continue;
    }
    if (checking() && !is_plain_float(tensor->dtype))
      finder_.report(weight_of(matrix) + " has type " + std::string(info(tensor->dtype).name) +
                     ", the CUDA kernels read BF16, F16 and F32");
    upload.sources.push_back({tensor, matrix.n});
  }
  if (out.k % 8 != 0)
    return unsupported(
        weight_of(matrices[0]),
        "rows of " + std::to_string(out.k) + " values are not a multiple of 8, as the CUDA kernels need");
  MET_ASSIGN(out.bias, load_bias(matrices, gated));
  const bool quantize = options_.quantize && !keep;
  if (quantize) {
    if (out.k % kE4m3Order != 0)
      return unsupported("--quantization", weight_of(matrices[0]) + " has rows of " + std::to_string(out.k) +
                                               " values, which are not a multiple of 64, as fp8 needs");
    out.type = DType::kF8E4M3;
  }
  const auto values = static_cast<std::size_t>(out.n * out.k);
  const std::size_t scale_bytes = quantize ? static_cast<std::size_t>(out.n) * sizeof(float) : 0;
  if (checking()) {
    total_ += bytes_of(out.type, values) + scale_bytes;
    return out;
  }
  MET_CHECK(complete, "loading what the check has refused");
  MET_ASSIGN(out.data, gpu::DeviceMemory::allocate(device_, bytes_of(out.type, values), "weights"));
  upload.n = out.n;
  if (quantize) {
    MET_ASSIGN(out.scales, gpu::DeviceMemory::allocate(device_, scale_bytes, "weights"));
    upload.quantized = out.data.data();
    upload.scales = out.scales.data();
  } else {
    upload.to = out.data.data();
  }
  uploads_.push_back(std::move(upload));
  return out;
}

Result<gpu::DeviceMemory> MatrixLoader::load_bias(const std::vector<MatrixName>& matrices, bool gated) {
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
  if (gated) {
    for (std::int64_t r = 0; r < 2 * std::ssize(parts[0]); ++r) {
      const RowAt at = gated_row(r);
      all.push_back(parts[at.source][static_cast<std::size_t>(at.row)]);
    }
  } else {
    for (const auto& part : parts) all.insert(all.end(), part.begin(), part.end());
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

// Rows [begin, end) of the packed matrix as BF16.
void MatrixLoader::fill(const Upload& upload, std::int64_t begin, std::int64_t end, std::byte* staging) {
  const auto packed_bytes = static_cast<std::size_t>(upload.k) * kBf16Bytes;
  RowAt at{0, begin};
  if (!upload.gated)
    while (at.row >= upload.sources[at.source].rows) at.row -= upload.sources[at.source++].rows;
  for (std::int64_t r = begin; r < end; ++r, staging += packed_bytes) {
    if (upload.gated) at = gated_row(r);
    const weights::TensorView& tensor = *upload.sources[at.source].tensor;
    const std::size_t row_bytes = bytes_of(tensor.dtype, static_cast<std::size_t>(upload.k));
    convert_row(tensor.dtype, tensor.bytes.data() + static_cast<std::size_t>(at.row) * row_bytes, upload.k,
                staging);
    if (!upload.gated && ++at.row == upload.sources[at.source].rows) at = {at.source + 1, 0};
  }
}

Result<> MatrixLoader::finish() {
  const auto plain = std::ranges::partition(uploads_, [](const Upload& u) { return bool(u.quantized); });
  MET_TRY(finder_.invented() ? fill_at_random(plain) : fill_from_files(plain));
  MET_TRY(quantize_all());
  uploads_.clear();
  return {};
}

// One matrix after another through a buffer of BF16 values.
Result<> MatrixLoader::quantize_all() {
  std::int64_t largest = 0;
  for (const Upload& upload : uploads_)
    if (upload.quantized) largest = std::max(largest, upload.n * upload.k);
  if (largest == 0) return {};
  MET_ASSIGN(const ops::cuda::PackE4m3Plan pack, ops::cuda::plan_pack_e4m3(device_));
  MET_ASSIGN(const gpu::DeviceMemory buffer,
             gpu::DeviceMemory::allocate(device_, static_cast<std::size_t>(largest) * kBf16Bytes, "weights"));
  for (Upload& upload : uploads_) {
    if (!upload.quantized) continue;
    upload.to = buffer.data();
    const std::span<const Upload> one(&upload, 1);
    MET_TRY(finder_.invented() ? fill_at_random(one) : fill_from_files(one));
    MET_TRY(ops::cuda::pack_e4m3(pack, buffer.data(), upload.quantized, upload.scales, upload.n, upload.k,
                                 device_.default_stream()));
    MET_TRY(device_.synchronize(device_.default_stream()));
  }
  return {};
}

Result<> MatrixLoader::fill_from_files(std::span<const Upload> uploads) {
  std::vector<Uploader::Piece> pieces;
  for (const Upload& upload : uploads) {
    const auto row_bytes = static_cast<std::size_t>(upload.k) * kBf16Bytes;
    const auto rows = static_cast<std::int64_t>(Uploader::kPieceBytes / row_bytes);
    MET_CHECK(rows > 0, "a row of weights is longer than a piece of an upload");
    for (std::int64_t begin = 0; begin < upload.n; begin += rows) {
      const std::int64_t end = std::min(begin + rows, upload.n);
      pieces.push_back(
          {.to = upload.to + static_cast<std::size_t>(begin) * row_bytes,
           .bytes = static_cast<std::size_t>(end - begin) * row_bytes,
           .fill = [&upload, begin, end](std::byte* staging) { fill(upload, begin, end, staging); }});
    }
  }
  MET_TRY(uploader_.run(pieces, [&](std::size_t bytes) {
    done_ += bytes;
    if (options_.progress) options_.progress(std::min(done_, total_), total_);
  }));
  for (const Upload& upload : uploads)
    for (const Source& source : upload.sources) finder_.release(*source.tensor);
  return {};
}

Result<> MatrixLoader::fill_at_random(std::span<const Upload> uploads) {
  MET_ASSIGN(const ops::cuda::DummyWeightsPlan plan, ops::cuda::plan_dummy_weights(device_));
  for (const Upload& upload : uploads)
    MET_TRY(ops::cuda::dummy_weights(plan, upload.to, static_cast<std::size_t>(upload.n * upload.k), ++seed_,
                                     device_.default_stream()));
  return device_.synchronize(device_.default_stream());
}

}  // namespace met::layers::cuda
