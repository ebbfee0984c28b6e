#include "tests/gpu/cuda_check/check.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "core/dtype.h"

namespace met::gpu::check {
namespace {

constexpr int kRounds = 9;  // timed; the median is reported

/// Device copies of a case's buffers, freed with the scope.
class Buffers {
 public:
  explicit Buffers(GpuBackend& gpu) : gpu_(gpu) {}
  ~Buffers() {
    for (const DevicePtr p : pointers_) gpu_.free(p);
  }
  Buffers(const Buffers&) = delete;
  Buffers& operator=(const Buffers&) = delete;

  Result<> add(const OpCase& op) {
    for (std::size_t i = 0; i < op.buffers.size(); ++i) {
      MET_ASSIGN(const DevicePtr p,
                 gpu_.allocate(op.buffers[i].size(), op.op + " buffer " + std::to_string(i)));
      pointers_.push_back(p);
    }
    return upload(op, pointers_.size() - op.buffers.size());
  }
  Result<> upload(const OpCase& op, std::size_t first) {
    for (std::size_t i = 0; i < op.buffers.size(); ++i)
      MET_TRY(gpu_.copy_to_device(pointers_[first + i], op.buffers[i].data(), op.buffers[i].size()));
    return {};
  }
  std::span<const DevicePtr> at(std::size_t first, std::size_t count) const {
    return std::span(pointers_).subspan(first, count);
  }

 private:
  GpuBackend& gpu_;
  std::vector<DevicePtr> pointers_;
};

double value_at(const std::byte* data, DType type, std::size_t i) {
  switch (type) {
    case DType::kF32: {
      float v = 0;
      std::memcpy(&v, data + 4 * i, 4);
      return v;
    }
    case DType::kI32: {
      std::int32_t v = 0;
      std::memcpy(&v, data + 4 * i, 4);
      return v;
    }
    case DType::kF8E4M3:
      return f8e4m3_to_f32(static_cast<std::uint8_t>(data[i]));
    default: {
      std::uint16_t bits = 0;
      std::memcpy(&bits, data + 2 * i, 2);
      return bf16_to_f32(bits);
    }
  }
}

bool judge_output(const OpCase& op, const Output& output, const std::vector<std::byte>& got,
                  const char* mode) {
  std::size_t wrong = 0;
  for (std::size_t e = 0; e < output.want.size(); ++e) {
    const double want = output.want[e];
    const double value = value_at(got.data(), output.type, e);
    const double slack = output.tolerance.relative * std::abs(want) + output.tolerance.absolute;
    if (std::abs(value - want) <= slack || value == want) continue;  // NaN fails,
    if (std::isnan(value) && std::isnan(want)) continue;             // but for what was NaN and stays
    if (wrong++ == 0)
      std::printf("  FAILED %s %s %s: buffer %zu value %zu is %.9g, wanted %.9g within %.3g (%s)\n",
                  op.op.c_str(), op.shape.c_str(), mode, output.buffer, e, value, want, slack,
                  output.tolerance.name);
  }
  if (wrong > 1) std::printf("         and %zu more of %zu\n", wrong - 1, output.want.size());
  return wrong == 0;
}

/// Compares what the device holds now; prints the first mismatch of each buffer.
Result<bool> judge(GpuBackend& gpu, const OpCase& op, std::span<const DevicePtr> at, const char* mode) {
  bool good = true;
  for (std::size_t i = 0; i < op.buffers.size(); ++i) {
    if (std::ranges::find(op.scratch, i) != op.scratch.end()) continue;
    std::vector<std::byte> got(op.buffers[i].size());
    MET_TRY(gpu.copy_to_host(got.data(), at[i], got.size()));
    const auto output = std::ranges::find(op.outputs, i, &Output::buffer);
    if (output != op.outputs.end()) {
      good = judge_output(op, *output, got, mode) && good;
    } else if (got != op.buffers[i]) {
      std::printf("  FAILED %s %s %s: input %zu was changed\n", op.op.c_str(), op.shape.c_str(), mode, i);
      good = false;
    }
  }
  if (const auto guards = gpu.check_redzones(); !guards) {
    std::printf("  FAILED %s %s %s: %s\n", op.op.c_str(), op.shape.c_str(), mode,
                guards.error().message.c_str());
    good = false;
  }
  return good;
}

Result<> enqueue(GpuBackend& gpu, const OpCase& op, std::span<const DevicePtr> at) {
  MET_ASSIGN(const std::vector<KernelLaunch> launches, op.launch(at));
  for (const KernelLaunch& launch : launches) MET_TRY(gpu.launch(launch, gpu.default_stream()));
  return {};
}

Result<Graph> capture(GpuBackend& gpu, const OpCase& op, const Buffers& buffers, std::size_t copies) {
  const Stream stream = gpu.default_stream();
  MET_TRY(gpu.begin_capture(stream));
  for (std::size_t c = 0; c < copies; ++c) {
    const auto launched = enqueue(gpu, op, buffers.at(c * op.buffers.size(), op.buffers.size()));
    if (launched) continue;
    gpu.abort_capture(stream);
    return std::unexpected(launched.error());
  }
  return gpu.end_capture(stream);
}

/// Milliseconds of each of kRounds replays, after one that warms up.
Result<std::vector<double>> time_replays(GpuBackend& gpu, Graph graph) {
  const Stream stream = gpu.default_stream();
  MET_ASSIGN(const Event begin, gpu.create_event(true));
  MET_ASSIGN(const Event end, gpu.create_event(true));
  std::vector<double> times;
  for (int round = -1; round < kRounds; ++round) {
    MET_TRY(gpu.record(begin, stream));
    MET_TRY(gpu.launch(graph, stream));
    MET_TRY(gpu.record(end, stream));
    MET_TRY(gpu.synchronize(stream));
    MET_ASSIGN(const double ms, gpu.elapsed_ms(begin, end));
    if (round >= 0) times.push_back(ms);
  }
  gpu.destroy(begin);
  gpu.destroy(end);
  std::ranges::sort(times);
  return times;
}

}  // namespace

std::uint64_t Rng::next() {
  state += 0x9e3779b97f4a7c15ULL;
  std::uint64_t z = state;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

double Rng::uniform(double low, double high) {
  return low + (high - low) * static_cast<double>(next() >> 11) * 0x1p-53;
}

std::vector<double> values_of(const std::vector<std::uint16_t>& bf16) {
  std::vector<double> values;
  values.reserve(bf16.size());
  for (const std::uint16_t b : bf16) values.push_back(bf16_to_f32(b));
  return values;
}

std::vector<std::byte> bytes_of(const std::vector<std::uint16_t>& values) { return raw(values); }

std::vector<std::uint16_t> random_bf16(Rng& rng, std::size_t count, double magnitude) {
  constexpr std::size_t kPeriod = 1000003;  // long tensors repeat: no row length divides it
  std::vector<std::uint16_t> bits(count);
  for (std::size_t i = 0; i < count; ++i)
    bits[i] =
        i < kPeriod ? f32_to_bf16(static_cast<float>(rng.uniform(-magnitude, magnitude))) : bits[i - kPeriod];
  return bits;
}

Result<bool> run_case(GpuBackend& gpu, const OpCase& given) {
  OpCase op = given;
  if (op.oracle) op.oracle(op.outputs);
  const Stream stream = gpu.default_stream();
  Buffers buffers(gpu);
  MET_TRY(buffers.add(op));
  const auto at = buffers.at(0, op.buffers.size());
  MET_TRY(enqueue(gpu, op, at));
  MET_TRY(gpu.synchronize(stream));
  MET_ASSIGN(bool good, judge(gpu, op, at, "eager"));
  MET_ASSIGN(const Graph graph, capture(gpu, op, buffers, 1));
  for (const char* mode : {"first replay", "second replay"}) {
    MET_TRY(buffers.upload(op, 0));
    MET_TRY(gpu.launch(graph, stream));
    MET_TRY(gpu.synchronize(stream));
    MET_ASSIGN(const bool replayed, judge(gpu, op, at, mode));
    good = good && replayed;
  }
  gpu.destroy(graph);
  return good;
}

Result<double> read_bandwidth(GpuBackend& gpu) {
  constexpr std::size_t kBytes = std::size_t{4} << 30;
  MET_ASSIGN(const KernelHandle kernel, gpu.kernel("bandwidth", "read_bandwidth"));
  const std::size_t bytes = std::min(kBytes, gpu.memory().free / 2 / 4096 * 4096);
  MET_ASSIGN(const DevicePtr data, gpu.allocate(bytes, "bandwidth"));
  MET_ASSIGN(const DevicePtr sink, gpu.allocate(4, "bandwidth"));
  MET_TRY(gpu.fill_async(data, 0x5b, bytes, gpu.default_stream()));
  double best = 0;
  for (const unsigned blocks : {2U, 4U, 8U}) {
    KernelLaunch launch(kernel, {blocks * static_cast<unsigned>(gpu.info().multiprocessors)}, {512});
    launch.buffer(data).scalar(static_cast<std::int64_t>(bytes / 16)).buffer(sink);
    const Stream stream = gpu.default_stream();
    MET_TRY(gpu.begin_capture(stream));
    MET_TRY(gpu.launch(launch, stream));
    MET_ASSIGN(const Graph graph, gpu.end_capture(stream));
    MET_ASSIGN(const std::vector<double> times, time_replays(gpu, graph));
    gpu.destroy(graph);
    const double median = static_cast<double>(bytes) / times[times.size() / 2] / 1e6;
    std::printf("read bandwidth, %u blocks of 512 threads an SM: median %.0f GB/s, best %.0f, worst %.0f\n",
                blocks, median, static_cast<double>(bytes) / times.front() / 1e6,
                static_cast<double>(bytes) / times.back() / 1e6);
    best = std::max(best, median);
  }
  gpu.free(data);
  gpu.free(sink);
  return best;
}

Result<> time_case(GpuBackend& gpu, const OpCase& op, double bandwidth) {
  // Enough copies that what one replay touches is three times the cache, where memory allows: a case may read little of what
  // it holds.
  constexpr std::size_t kCopiesMax = 256;
  constexpr std::size_t kBytesMax = std::size_t{8} << 30;
  std::size_t held = 1;
  for (const auto& buffer : op.buffers) held += buffer.size();
  const auto touched = static_cast<std::size_t>(op.bytes);
  const std::size_t wanted = 3 * std::max<std::size_t>(gpu.info().l2_bytes, std::size_t{32} << 20);
  const std::size_t most = std::clamp<std::size_t>(kBytesMax / held, 3, kCopiesMax);
  const std::size_t copies = std::clamp<std::size_t>((wanted + touched - 1) / touched, 3, most);
  const bool cold = copies * touched >= wanted;
  Buffers buffers(gpu);
  for (std::size_t c = 0; c < copies; ++c) MET_TRY(buffers.add(op));
  MET_ASSIGN(const Graph graph, capture(gpu, op, buffers, copies));
  const auto times = time_replays(gpu, graph);
  gpu.destroy(graph);
  if (!times) return std::unexpected(times.error());
  const double each = 1e3 / static_cast<double>(copies);  // ms of a graph to us of a launch
  const double median = (*times)[times->size() / 2] * each;
  const double rate = op.bytes / median / 1e3;
  std::printf("%-20s %-24s %9.2f us (%.2f to %.2f) %12.0f B %8.1f GB/s %5.1f %% %s", op.op.c_str(),
              op.shape.c_str(), median, times->front() * each, times->back() * each, op.bytes, rate,
              100 * rate / bandwidth, cold ? "cold" : "from L2");
  if (op.flops > 0) std::printf(" %7.1f TFLOP/s", op.flops / median / 1e6);
  std::printf("\n");
  return {};
}

}  // namespace met::gpu::check
