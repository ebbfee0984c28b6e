// From a checkpoint's tensors to matrices and vectors on the device.
#pragma once

#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "config/model_config.h"
#include "layers/moe_layer.h"
#include "layers/projection.h"
#include "layers/repack_cache.h"
#include "layers/tensor_finder.h"
#include "ops/attention/kv_format.h"

namespace met::layers {

/// Packs and uploads weights for the CPU's kernels. While checking (see TensorFinder), results are empty.
class WeightLoader {
 public:
  struct Options {
    ops::ActivationMode activations = ops::ActivationMode::kInt8;
    ops::KvFormat kv_cache;  ///< of the caches that the attention layers use
    int threads = 1;
    std::string repack_cache;  ///< folder that keeps packed weights between starts; empty: none
    std::function<void(std::size_t done, std::size_t total)> progress;  ///< packed bytes; may be empty
  };

  WeightLoader(gpu::GpuBackend& device, const weights::Checkpoint& checkpoint, Options options)
      : device_(device), checkpoint_(checkpoint), finder_(&checkpoint), options_(std::move(options)) {}

  TensorFinder& finder() { return finder_; }
  const TensorFinder& finder() const { return finder_; }
  bool checking() const { return finder_.checking(); }
  std::size_t packed_bytes() const { return total_; }
  /// Of them, embedding tables: a step reads single rows of a table that is not the head too.
  std::size_t table_bytes() const { return table_bytes_; }
  /// And all experts of mixtures.
  std::size_t expert_bytes() const { return expert_bytes_; }
  /// The most that one token of any projection needs of StepBuffers::workspace.
  std::size_t workspace_row_bytes() const { return workspace_row_bytes_; }
  const ops::KvFormat& kv_cache() const { return options_.kv_cache; }
  gpu::GpuBackend& device() { return device_; }

  /// One projection over the matrices, side by side along n. `norm` names a vector [k] or is empty.
  Result<Projection> projection(const std::vector<MatrixName>& matrices, const std::string& norm,
                                ops::LinearShape shape);
  /// Gate and up, [width, k] each: one gated matrix where both have one type, else [gate | up].
  Result<Projection> gate_up(const MatrixName& gate, const MatrixName& up, const std::string& norm,
                             ops::LinearShape shape, Epilogue activation);
  /// One product of `count` experts, `per_token` of which a token meets: gate and up, [width, k] each, with a gated
  /// epilogue, or one matrix [n, k]. {} in a name is the expert's number; without it one tensor [count, n, k] holds all.
  Result<ExpertProjection> experts(const std::vector<MatrixName>& matrices, int count, int per_token,
                                   ops::LinearShape shape);
  /// A vector as F32; `name` with its suffix.
  Result<gpu::DeviceMemory> vector(const std::string& name, std::int64_t size);
  /// F32 values of the host's own.
  Result<gpu::DeviceMemory> upload(std::span<const float> values, std::string_view site);

  /// An embedding table [vocabulary, dim] packed as a matrix.
  struct Table {
    ops::LinearPack pack;
    gpu::DeviceMemory data;
  };
  Result<Table> table(const MatrixName& matrix);

 private:
  Result<Projection::Part> load_part(const std::vector<MatrixName>& matrices, bool gated,
                                     ops::LinearShape shape, std::int64_t column);
  Result<gpu::DeviceMemory> load_bias(const std::vector<MatrixName>& matrices);
  /// One packed matrix: its sources, and where it goes.
  struct Packing {
    std::vector<ops::LinearPart> parts;
    std::size_t offset = 0;
  };
  /// The matrices of one type, one after another along n.
  Result<gpu::DeviceMemory> pack(const ops::LinearPack& plan, const std::vector<MatrixName>& matrices);
  /// Packs all into `bytes` of the device, with all threads, or takes them from the cache.
  Result<gpu::DeviceMemory> pack_all(const ops::LinearPack& plan, std::span<const Packing> all,
                                     std::size_t bytes);
  /// The matrix in the checkpoint's memory; scales of E4M3 are kept in `scales`.
  Result<ops::LinearPart> source(const MatrixName& matrix, std::deque<std::vector<float>>& scales) const;
  std::optional<DType> expert_type(const std::vector<MatrixName>& matrices, int count);
  Result<std::vector<Packing>> expert_sources(const std::vector<MatrixName>& matrices, int count, DType type,
                                              std::size_t stride,
                                              std::deque<std::vector<float>>& scales) const;
  void plan_for(const ops::LinearPack& pack, std::size_t bytes, std::size_t rows_per_token = 1);
  void advance(std::size_t bytes);
  /// Opens the cache before the first matrix.
  Result<> open_cache();

  gpu::GpuBackend& device_;
  const weights::Checkpoint& checkpoint_;
  TensorFinder finder_;
  Options options_;
  std::unique_ptr<RepackCache> cache_;  ///< from the first packing to the last, where one is asked for
  std::size_t total_ = 0;
  std::size_t table_bytes_ = 0;
  std::size_t expert_bytes_ = 0;
  std::size_t workspace_row_bytes_ = 0;
  std::size_t done_ = 0;
};

}  // namespace met::layers
