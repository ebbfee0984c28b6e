// One operation on the device: run eagerly and as a graph replayed twice, judged against FP64, timed with
// cold memory.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "core/dtype.h"
#include "gpu/backend.h"

namespace met::gpu::check {

/// |got - want| <= relative * |want| + absolute; a NaN where NaN is wanted
struct Tolerance {
  const char* name;
  double relative;
  double absolute;
};

/// A buffer that the operation writes.
struct Output {
  std::size_t buffer = 0;
  DType type = DType::kBF16;  ///< BF16, F32, F8E4M3 or I32
  std::vector<double> want;   ///< of every value of the buffer, untouched ones included
  Tolerance tolerance{};
};

struct OpCase {
  std::string op;
  std::string shape;
  std::vector<std::vector<std::byte>> buffers;  ///< initial contents, one device buffer each
  std::vector<Output> outputs;
  std::vector<std::size_t>
      scratch;  ///< buffers whose contents afterwards do not matter; all others must not change
  /// Works out what the outputs should be, where they do not say so yet: only who runs the case has to wait for it.
  std::function<void(std::vector<Output>&)> oracle;
  /// The operation's launches, in order, on these buffers.
  std::function<Result<std::vector<KernelLaunch>>(std::span<const DevicePtr>)> launch;
  double bytes = 0;  ///< read and written by one run
  double flops = 0;  ///< 0: the rate is of bytes
};

struct Rng {
  std::uint64_t state;
  std::uint64_t next();
  double uniform(double low, double high);
};

std::vector<std::byte> bytes_of(const std::vector<std::uint16_t>& values);
template <class T>
std::vector<std::byte> raw(const std::vector<T>& values) {
  const auto* begin = reinterpret_cast<const std::byte*>(values.data());
  return {begin, begin + values.size() * sizeof(T)};
}
/// BF16 bits of uniform values in [-magnitude, magnitude].
std::vector<std::uint16_t> random_bf16(Rng& rng, std::size_t count, double magnitude);

/// Runs the case in every mode; prints one line a failure and returns whether all passed.
Result<bool> run_case(GpuBackend& gpu, const OpCase& op);

/// Measured read bandwidth in GB/s, best of several rounds over memory far larger than the cache.
Result<double> read_bandwidth(GpuBackend& gpu);

/// Times the case over rotating copies of its buffers; prints one line.
Result<> time_case(GpuBackend& gpu, const OpCase& op, double bandwidth);

/// Cases of one group: small ones that probe, or large ones that are timed.
using CaseMaker = Result<std::vector<OpCase>> (*)(GpuBackend& gpu, bool timed);
Result<std::vector<OpCase>> rope_kv_cases(GpuBackend& gpu, bool timed);
Result<std::vector<OpCase>> moe_cases(GpuBackend& gpu, bool timed);
Result<std::vector<OpCase>> moe_few_cases(GpuBackend& gpu, bool timed);
Result<std::vector<OpCase>> prefill_attention_cases(GpuBackend& gpu, bool timed);
Result<std::vector<OpCase>> embedding_cases(GpuBackend& gpu, bool timed);
Result<std::vector<OpCase>> decode_attention_cases(GpuBackend& gpu, bool timed);
Result<std::vector<OpCase>> brief_attention_cases(GpuBackend& gpu, bool timed);
Result<std::vector<OpCase>> residual_norm_cases(GpuBackend& gpu, bool timed);
Result<std::vector<OpCase>> moe_router_cases(GpuBackend& gpu, bool timed);
Result<std::vector<OpCase>> sample_cases(GpuBackend& gpu, bool timed);
Result<std::vector<OpCase>> gemm_cases(GpuBackend& gpu, bool timed);
Result<std::vector<OpCase>> quantise_cases(GpuBackend& gpu, bool timed);
Result<std::vector<OpCase>> projection_cases(GpuBackend& gpu, bool timed);
Result<std::vector<OpCase>> projection_layer_cases(GpuBackend& gpu, bool timed);
Result<std::vector<OpCase>> pack_e4m3_cases(GpuBackend& gpu, bool timed);

struct CaseGroup {
  const char* name;
  CaseMaker make;
};
inline constexpr CaseGroup kGroups[] = {{"rope_kv", rope_kv_cases},
                                        {"prefill_attention", prefill_attention_cases},
                                        {"moe_gemm", moe_cases},
                                        {"moe_few", moe_few_cases},
                                        {"embedding", embedding_cases},
                                        {"residual_norm", residual_norm_cases},
                                        {"decode_attention", decode_attention_cases},
                                        {"brief_attention", brief_attention_cases},
                                        {"moe_router", moe_router_cases},
                                        {"sample", sample_cases},
                                        {"gemm", gemm_cases},
                                        {"quantise", quantise_cases},
                                        {"projection", projection_cases},
                                        {"projection_layer", projection_layer_cases},
                                        {"pack_e4m3", pack_e4m3_cases}};

/// One BF16 rounding (8 significant bits) and what FP32 sums and rsqrt add.
inline constexpr double kBf16Rounding = 0x1p-8 + 0x1p-16;
std::vector<double> values_of(const std::vector<std::uint16_t>& bf16);

}  // namespace met::gpu::check
