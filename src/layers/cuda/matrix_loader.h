// From a checkpoint's tensors to the matrices and vectors that the CUDA kernels read.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "gpu/device_memory.h"
#include "layers/cuda/matrix_rows.h"
#include "layers/cuda/uploader.h"
#include "layers/tensor_finder.h"
#include "ops/attention/kv_format.h"

namespace met::layers::cuda {

/// A matrix W[n, k] on the device, row after row, or several stacked along n.
struct DeviceMatrix {
  DType type = DType::kBF16;  ///< or F8E4M3
  std::int64_t n = 0;
  std::int64_t k = 0;
  gpu::DeviceMemory data;
  gpu::DeviceMemory scales;   ///< E4M3: F32 [n], or with block_scales as GemmArgs::weight_scales
  bool block_scales = false;  ///< E4M3: a scale for 128 rows and 128 of k
  gpu::DeviceMemory bias;     ///< F32 [n], or empty
};

/// Plans and uploads weights. E4M3 matrices stay what they are; where the kernels cannot read them so, they are widened to
/// BF16: an embedding or a head, stacked with floats, rows that are no multiple of 16 values or longer than kQuantiseMax,
/// or blocks of scales that begin inside another matrix's. While the finder checks, results carry sizes and no memory;
/// while it loads, uploads are collected and `finish` runs them all, with as many threads as it is given.
class MatrixLoader {
 public:
  struct Options {
    bool quantize = false;   ///< float matrices of the layers become E4M3 with a scale a row
    ops::KvFormat kv_cache;  ///< of the caches that the attention layers use
    int threads = 1;
    std::function<void(std::size_t done, std::size_t total)> progress;  ///< bytes; may be empty
  };

  /// `checkpoint` null: random weights.
  MatrixLoader(gpu::GpuBackend& device, const weights::Checkpoint* checkpoint, Options options)
      : device_(device),
        finder_(checkpoint),
        options_(std::move(options)),
        uploader_(device, options_.threads) {}

  TensorFinder& finder() { return finder_; }
  const TensorFinder& finder() const { return finder_; }
  bool checking() const { return finder_.checking(); }
  const ops::KvFormat& kv_cache() const { return options_.kv_cache; }
  gpu::GpuBackend& device() { return device_; }
  /// Bytes that all results take on the device.
  std::size_t device_bytes() const { return total_; }

  /// Of them, the embedding table.
  std::size_t table_bytes() const { return table_bytes_; }
  /// And all experts of mixtures.
  std::size_t expert_bytes() const { return expert_bytes_; }

  /// The matrices side by side along n. `keep`: never quantized (the head).
  Result<DeviceMatrix> matrix(const std::vector<MatrixName>& matrices, bool keep = false);
  /// An embedding table, never quantized.
  Result<DeviceMatrix> table(const MatrixName& matrix);
  /// Gate and up, [width, k] each: rows alternate 8 of gate, 8 of up (docs/hopper.md).
  Result<DeviceMatrix> gated(const MatrixName& gate, const MatrixName& up);
  /// Matrices of `count` experts, one after another along n; {} in a name is the expert's number.
  Result<DeviceMatrix> experts(const MatrixName& matrix, int count);
  /// The same, each expert's gate and up as `gated` leaves them.
  Result<DeviceMatrix> gated_experts(const MatrixName& gate, const MatrixName& up, int count);
  /// A vector as F32, `offset` added to each value.
  Result<gpu::DeviceMemory> vector(const std::string& name, std::int64_t size, float offset = 0);
  /// F32 values of the host's own.
  Result<gpu::DeviceMemory> upload(std::span<const float> values, std::string_view site);

  /// Runs the uploads. The matrices are complete when it returns.
  Result<> finish();

 private:
  /// A matrix to fill.
  struct Upload {
    gpu::DevicePtr to;
    DType type = DType::kBF16;  ///< of its rows there
    RowStack stack;
    gpu::DevicePtr quantized;  ///< E4M3 and its scales, made from `to`; null: `to` is the matrix itself
    gpu::DevicePtr scales;
  };
  /// How a stack of matrices is laid out and stored.
  struct Form {
    bool gated = false;
    bool experts = false;
    bool keep = false;  ///< never quantized
  };
  Result<DeviceMatrix> load(const std::vector<MatrixName>& matrices, const Form& form);
  /// The matrices' tensors, with the layout of their scales but not their values. Sources of tensors that are missing or
  /// cannot be read have none: told by begin_loading.
  Result<DeviceMatrix> load_experts(std::span<const MatrixName> matrices, int count);
  RowStack find(const std::vector<MatrixName>& matrices, const Form& form);
  Result<> read_scales(const std::vector<MatrixName>& matrices, RowStack& stack) const;
  /// Size and type of the matrix on the device. `first`: the stack's first, for messages.
  Result<DeviceMatrix> plan(const MatrixName& first, const RowStack& stack, bool keep) const;
  Result<gpu::DeviceMemory> load_bias(const std::vector<MatrixName>& matrices, const RowStack& stack);
  Result<> fill_from_files(std::span<const Upload> uploads);
  Result<> fill_at_random(std::span<const Upload> uploads);
  Result<> quantize_all();

  gpu::GpuBackend& device_;
  TensorFinder finder_;
  Options options_;
  std::size_t total_ = 0;
  std::size_t table_bytes_ = 0;
  std::size_t expert_bytes_ = 0;
  Uploader uploader_;
  std::size_t done_ = 0;  ///< bytes uploaded
  std::vector<Upload> uploads_;
  std::size_t widened_ = 0;  ///< E4M3 matrices that became BF16
  std::uint64_t seed_ = 0;   ///< of random matrices: the number made so far
};

}  // namespace met::layers::cuda
