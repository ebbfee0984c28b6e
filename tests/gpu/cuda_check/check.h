// One operation on the device: run eagerly and as a graph replayed twice, judged against FP64, timed with
// cold memory.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "gpu/backend.h"

namespace met::gpu::check {

/// |got - want| <= relative * |want| + absolute
struct Tolerance {
  const char* name;
  double relative;
  double absolute;
};

struct OpCase {
  std::string op;
  std::string shape;
  std::vector<std::vector<std::byte>> buffers;  ///< initial contents, one device buffer each
  std::size_t output = 0;    ///< which of them is written (BF16); the others must not change
  std::vector<double> want;  ///< of every value of the output, untouched ones included
  Tolerance tolerance{};
  std::function<KernelLaunch(std::span<const DevicePtr>)> launch;
  double bytes = 0;  ///< read and written by one launch; 0: not timed
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

/// The cases of RMSNorm, RoPE and embedding: small ones that probe, then large ones that are timed.
Result<std::vector<OpCase>> all_cases(GpuBackend& gpu, bool timed);

}  // namespace met::gpu::check
