#include "layers/cuda/matrix_loader.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <thread>

#include "ops/cuda/dummy_weights.h"

namespace met::layers::cuda {

namespace {

constexpr std::size_t kStagingBytes = std::size_t{8} << 20U;
constexpr std::int64_t kGatedGroup = 8;  // rows of gate, then as many of up
constexpr std::size_t kBf16Bytes = 2;

bool is_float(DType type) { return type == DType::kBF16 || type == DType::kF16 || type == DType::kF32; }

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

Result<DeviceMatrix> MatrixLoader::load(const std::vector<MatrixName>& matrices, bool gated, bool /*keep*/) {
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
    if (checking() && !is_float(tensor->dtype))
      finder_.report(weight_of(matrix) + " has type " + std::string(info(tensor->dtype).name) +
                     ", the CUDA kernels read BF16, F16 and F32");
    upload.sources.push_back({tensor, matrix.n});
  }
  if (out.k % 8 != 0)
    return unsupported(
        weight_of(matrices[0]),
        "rows of " + std::to_string(out.k) + " values are not a multiple of 8, as the CUDA kernels need");
  MET_ASSIGN(out.bias, load_bias(matrices, gated));
  const std::size_t bytes = static_cast<std::size_t>(out.n * out.k) * kBf16Bytes;
  if (checking()) {
    total_ += bytes;
    return out;
  }
  MET_CHECK(complete, "loading what the check has refused");
  MET_ASSIGN(out.data, gpu::DeviceMemory::allocate(device_, bytes, "weights"));
  upload.to = out.data.data();
  upload.n = out.n;
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

void MatrixLoader::fill(const Chunk& chunk, std::byte* staging) {
  const Upload& upload = *chunk.upload;
  const auto packed_bytes = static_cast<std::size_t>(upload.k) * kBf16Bytes;
  RowAt at{0, chunk.begin};
  if (!upload.gated)
    while (at.row >= upload.sources[at.source].rows) at.row -= upload.sources[at.source++].rows;
  for (std::int64_t r = chunk.begin; r < chunk.end; ++r, staging += packed_bytes) {
    if (upload.gated) at = gated_row(r);
    const weights::TensorView& tensor = *upload.sources[at.source].tensor;
    const std::size_t row_bytes = bytes_of(tensor.dtype, static_cast<std::size_t>(upload.k));
    convert_row(tensor.dtype, tensor.bytes.data() + static_cast<std::size_t>(at.row) * row_bytes, upload.k,
                staging);
    if (!upload.gated && ++at.row == upload.sources[at.source].rows) at = {at.source + 1, 0};
  }
}

Result<> MatrixLoader::finish() {
  if (finder_.invented()) return invent_all();
  std::vector<Chunk> chunks;
  for (const Upload& upload : uploads_) {
    const auto row_bytes = static_cast<std::size_t>(upload.k) * kBf16Bytes;
    const std::int64_t rows = std::max<std::int64_t>(1, static_cast<std::int64_t>(kStagingBytes / row_bytes));
    for (std::int64_t begin = 0; begin < upload.n; begin += rows)
      chunks.push_back({&upload, begin, std::min(begin + rows, upload.n)});
  }
  MET_TRY(copy_chunks(chunks));
  for (const Upload& upload : uploads_)
    for (const Source& source : upload.sources) finder_.release(*source.tensor);
  uploads_.clear();
  return {};
}

// Each thread fills its two staging buffers in turn while the other one is on its way to the device.
Result<> MatrixLoader::copy_chunks(std::span<const Chunk> chunks) {
  std::atomic<std::size_t> next{0};
  std::atomic<std::size_t> done{0};
  std::mutex mutex;
  Result<> outcome;
  std::size_t largest = 0;
  for (const Chunk& c : chunks)
    largest = std::max(largest, static_cast<std::size_t>((c.end - c.begin) * c.upload->k) * kBf16Bytes);
  const auto work = [&]() -> Result<> {
    MET_TRY(device_.bind_thread());
    MET_ASSIGN(const gpu::Stream stream, device_.create_stream());
    gpu::PinnedHost staging[2];
    gpu::Event sent[2];
    for (int i = 0; i < 2; ++i) {
      MET_ASSIGN(staging[i], device_.allocate_pinned(largest));
      MET_ASSIGN(sent[i], device_.create_event(/*timing=*/false));
    }
    Result<> own;
    int turn = 0;
    for (std::size_t i = next++; i < chunks.size() && own; i = next++, turn ^= 1) {
      const Chunk& chunk = chunks[i];
      const auto row_bytes = static_cast<std::size_t>(chunk.upload->k) * kBf16Bytes;
      const std::size_t bytes = static_cast<std::size_t>(chunk.end - chunk.begin) * row_bytes;
      own = device_.synchronize(sent[turn]);
      if (!own) break;
      fill(chunk, static_cast<std::byte*>(staging[turn].host));
      own = device_.copy_to_device_async(chunk.upload->to + static_cast<std::size_t>(chunk.begin) * row_bytes,
                                         staging[turn].host, bytes, stream);
      if (own) own = device_.record(sent[turn], stream);
      if (const std::size_t now = done += bytes; options_.progress) {
        const std::lock_guard lock(mutex);
        options_.progress(now, total_);
      }
    }
    if (own) own = device_.synchronize(stream);
    for (int i = 0; i < 2; ++i) {
      device_.free_pinned(staging[i]);
      device_.destroy(sent[i]);
    }
    device_.destroy(stream);
    return own;
  };
  {
    std::vector<std::jthread> others;
    const auto run = [&] {
      if (Result<> own = work(); !own) {
        const std::lock_guard lock(mutex);
        if (outcome) outcome = std::move(own);
        next = chunks.size();
      }
    };
    const auto threads = std::min<std::size_t>(static_cast<std::size_t>(options_.threads), chunks.size());
    for (std::size_t i = 1; i < threads; ++i) others.emplace_back(run);
    run();
  }
  return outcome;
}

Result<> MatrixLoader::invent_all() {
  MET_ASSIGN(const ops::cuda::DummyWeightsPlan plan, ops::cuda::plan_dummy_weights(device_));
  std::uint64_t seed = 0;
  for (const Upload& upload : uploads_)
    MET_TRY(ops::cuda::dummy_weights(plan, upload.to, static_cast<std::size_t>(upload.n * upload.k), ++seed,
                                     device_.default_stream()));
  uploads_.clear();
  return device_.synchronize(device_.default_stream());
}

}  // namespace met::layers::cuda
