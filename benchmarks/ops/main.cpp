// met_bench_ops [threads] [isa] [linear|attention]: bytes, GB/s, GMAC/s and shares of the limits that the
// same run measured. Weights are rotated past L3, so that every call reads them from memory.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include <immintrin.h>

#include "benchmarks/ops/bench.h"

namespace met::bench {

Time measure(const std::function<void()>& call, double seconds_min) {
  using Clock = std::chrono::steady_clock;
  std::vector<double> times;
  double total = 0;
  call();
  while (total < seconds_min || times.size() < 5) {
    const auto begin = Clock::now();
    call();
    times.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
    total += times.back();
  }
  std::sort(times.begin(), times.end());
  return {times[times.size() / 2], times.front()};
}

namespace {

struct ReadArgs {
  const char* data;
  std::int64_t bytes;
};

__attribute__((target("avx2"))) void read_all(const void* raw, const MetCpuContext* context) {
  const auto& args = *static_cast<const ReadArgs*>(raw);
  const std::int64_t share = args.bytes / context->threads / 256 * 256;
  const auto* p = reinterpret_cast<const __m256i*>(args.data + context->thread * share);
  __m256i sum[4] = {};
  for (std::int64_t i = 0; i < share / 32; i += 4)
    for (int j = 0; j < 4; ++j) sum[j] = _mm256_xor_si256(sum[j], _mm256_load_si256(p + i + j));
  volatile long long sink = _mm256_extract_epi64(sum[0] ^ sum[1] ^ sum[2] ^ sum[3], 0);
  (void)sink;
}

constexpr std::int64_t kMacRounds = 20'000'000;

/// Four vpmaddubsw into 16-bit sums for one vpmaddwd: what 4-bit weights allow at most.
__attribute__((target("avx2"))) void multiply_all(const void*, const MetCpuContext*) {
  __m256i a = _mm256_set1_epi8(1);
  const __m256i w = _mm256_set1_epi8(2);
  __m256i wide[8] = {};
  for (std::int64_t i = 0; i < kMacRounds / 32; ++i) {
    for (auto& sum : wide) {
      __asm__ volatile("" : "+x"(a));  // no product may be taken for another
      __m256i s = _mm256_maddubs_epi16(w, a);
      for (int j = 0; j < 3; ++j) {
        __asm__ volatile("" : "+x"(a));
        s = _mm256_add_epi16(s, _mm256_maddubs_epi16(w, a));
      }
      sum = _mm256_add_epi32(sum, _mm256_madd_epi16(s, w));
    }
  }
  for (auto& sum : wide) __asm__ volatile("" : "+x"(sum));
}

}  // namespace

Limits measure_limits(test::Pool& pool) {
  Limits limits;
  constexpr std::int64_t kBytes = std::int64_t{1} << 30;
  auto* data = static_cast<char*>(std::aligned_alloc(4096, kBytes));
  std::memset(data, 1, kBytes);
  const ReadArgs args{data, kBytes};
  limits.read_gbs = kBytes / measure([&] { pool.run(read_all, &args); }, 0.5).best * 1e-9;
  std::free(data);
  const double macs = static_cast<double>(kMacRounds) / 32 * 8 * 4 * 32 * pool.threads();
  limits.int8_gmacs = macs / measure([&] { pool.run(multiply_all, nullptr); }, 0.2).best * 1e-9;
  return limits;
}

}  // namespace met::bench

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  const int threads = argc > 1 ? std::atoi(argv[1]) : 1;
  const std::string wanted = argc > 2 ? argv[2] : "";
  met::test::Pool pool(threads);
  const met::test::Isa* isa = &met::test::isas().back();
  for (const met::test::Isa& candidate : met::test::isas())
    if (candidate.name == wanted) isa = &candidate;
  met::bench::Setup setup{isa, &pool, met::bench::measure_limits(pool)};
  std::printf("%s, %d threads: read %.1f GB/s, int8 %.0f GMAC/s (AVX2 chain)\n", isa->name.c_str(), threads,
              setup.limits.read_gbs, setup.limits.int8_gmacs);
  const std::string only = argc > 3 ? argv[3] : "";
  if (only != "attention") met::bench::bench_linear(setup);
  if (only != "linear") met::bench::bench_attention(setup);
  return 0;
}
