// Stands in for libcuda.so.1 where there is no GPU, so that the backend's use of the driver (order of calls,
// captures, guard bands, errors) is tested everywhere. Memory is the host's, work runs when it is enqueued,
// one kernel is known.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "gpu/cuda/driver.h"

namespace {

using met::gpu::cuda::CuAttribute;
using met::gpu::cuda::CuCopy2D;
using met::gpu::cuda::CuLaunchConfig;
using Address = met::gpu::cuda::CuAddress;
using Work = std::function<void()>;

constexpr int kOk = 0, kInvalidValue = 1, kNoMemory = 2, kInvalidHandle = 400, kIllegalState = 401,
              kMissing = 500;
constexpr int kCaptureUnsupported = 900, kCaptureInvalidated = 901, kCaptureUnjoined = 904,
              kCapturedEvent = 907;
constexpr std::size_t kMemory = std::size_t{64} << 30;

struct FakeStream;
struct Capture {
  std::vector<Work> work;
  std::vector<FakeStream*> streams;
  bool broken = false;
};
struct FakeStream {
  std::shared_ptr<Capture> capture;
  std::size_t enqueued = 0, joined = 0;
};
struct FakeEvent {
  bool timing = false;
  std::weak_ptr<Capture> capture;
  FakeStream* stream = nullptr;
  std::size_t behind = 0;
};

void* at(Address address) { return reinterpret_cast<void*>(address); }

int enqueue(FakeStream* stream, Work work) {
  if (stream->capture) {
    stream->capture->work.push_back(std::move(work));
    ++stream->enqueued;
  } else {
    work();
  }
  return kOk;
}

int end(FakeStream* stream, std::vector<Work>* out) {
  const auto capture = stream->capture;
  if (!capture) return kIllegalState;
  bool joined = true;
  for (FakeStream* s : capture->streams) joined = joined && (s == stream || s->joined >= s->enqueued);
  for (FakeStream* s : capture->streams) *s = FakeStream{};
  if (capture->broken) return kCaptureInvalidated;
  if (!joined) return kCaptureUnjoined;
  *out = std::move(capture->work);
  return kOk;
}

}  // namespace

extern "C" {

int cuInit(unsigned) { return kOk; }
int cuDriverGetVersion(int* version) { return *version = 13000, kOk; }
int cuGetErrorName(int, const char** text) { return *text = "CUDA_ERROR_FAKE", kOk; }
int cuGetErrorString(int, const char** text) { return *text = "the stand-in driver refuses", kOk; }
int cuDeviceGetCount(int* count) { return *count = 1, kOk; }
int cuDeviceGet(int* device, int) { return *device = 0, kOk; }
int cuDeviceGetName(char* name, int length, int) { return std::strncpy(name, "stand-in", length), kOk; }
int cuDeviceGetAttribute(int* value, CuAttribute attribute, int) {
  const bool major = attribute == CuAttribute::kComputeMajor;
  *value = major ? 9 : attribute == CuAttribute::kSharedMemoryOptIn ? 232448 : 0;
  if (attribute == CuAttribute::kMultiprocessors) *value = 132;
  return kOk;
}
int cuDevicePrimaryCtxRetain(void** context, int) {
  static int one;
  return *context = &one, kOk;
}
int cuDevicePrimaryCtxRelease_v2(int) { return kOk; }
int cuCtxSetCurrent(void*) { return kOk; }

int cuMemGetInfo_v2(std::size_t* free, std::size_t* total) { return *free = *total = kMemory, kOk; }
int cuMemAlloc_v2(Address* address, std::size_t bytes) {
  if (bytes > kMemory) return kNoMemory;
  void* memory = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  *address = reinterpret_cast<Address>(memory);
  return memory == nullptr ? kNoMemory : kOk;
}
int cuMemFree_v2(Address address) { return std::free(at(address)), kOk; }
int cuMemHostAlloc(void** host, std::size_t bytes, unsigned) {
  *host = std::malloc(bytes);
  return *host == nullptr ? kNoMemory : kOk;
}
int cuMemFreeHost(void* host) { return std::free(host), kOk; }
int cuMemHostGetDevicePointer_v2(Address* address, void* host, unsigned) {
  return *address = reinterpret_cast<Address>(host), kOk;
}

int cuMemcpyHtoD_v2(Address to, const void* from, std::size_t bytes) {
  return std::memcpy(at(to), from, bytes), kOk;
}
int cuMemcpyDtoH_v2(void* to, Address from, std::size_t bytes) {
  return std::memcpy(to, at(from), bytes), kOk;
}
int cuMemcpyHtoDAsync_v2(Address to, const void* from, std::size_t bytes, FakeStream* stream) {
  return enqueue(stream, [=] { std::memcpy(at(to), from, bytes); });
}
int cuMemcpyDtoHAsync_v2(void* to, Address from, std::size_t bytes, FakeStream* stream) {
  return enqueue(stream, [=] { std::memcpy(to, at(from), bytes); });
}
int cuMemcpyDtoDAsync_v2(Address to, Address from, std::size_t bytes, FakeStream* stream) {
  return enqueue(stream, [=] { std::memcpy(at(to), at(from), bytes); });
}
int cuMemcpy2DAsync_v2(const CuCopy2D* copy, FakeStream* stream) {
  return enqueue(stream, [c = *copy] {
    for (std::size_t row = 0; row < c.height; ++row)
      std::memcpy(at(c.to_device + row * c.to_pitch), at(c.from_device + row * c.from_pitch), c.width_bytes);
  });
}
int cuMemsetD8_v2(Address to, unsigned char byte, std::size_t bytes) {
  return std::memset(at(to), byte, bytes), kOk;
}
int cuMemsetD8Async(Address to, unsigned char byte, std::size_t bytes, FakeStream* stream) {
  return enqueue(stream, [=] { std::memset(at(to), byte, bytes); });
}

int cuStreamCreate(FakeStream** stream, unsigned) { return *stream = new FakeStream, kOk; }
int cuStreamDestroy_v2(FakeStream* stream) {
  delete stream;
  return kOk;
}
int cuStreamSynchronize(FakeStream* stream) {
  if (stream == nullptr || !stream->capture) return kOk;
  stream->capture->broken = true;
  return kCaptureUnsupported;
}
int cuStreamWaitEvent(FakeStream* stream, FakeEvent* event, unsigned) {
  const auto capture = event->capture.lock();
  if (!capture) return kOk;
  if (!stream->capture) {
    stream->capture = capture;
    capture->streams.push_back(stream);
  }
  if (event->stream != stream) event->stream->joined = event->behind;
  return kOk;
}
int cuStreamBeginCapture_v2(FakeStream* stream, int) {
  stream->capture = std::make_shared<Capture>();
  stream->capture->streams.push_back(stream);
  return kOk;
}
int cuStreamEndCapture(FakeStream* stream, void** graph) {
  auto work = std::make_unique<std::vector<Work>>();
  const int result = end(stream, work.get());
  *graph = result == kOk ? work.release() : nullptr;
  return result;
}
int cuStreamIsCapturing(FakeStream* stream, int* status) { return *status = stream->capture ? 1 : 0, kOk; }

int cuEventCreate(FakeEvent** event, unsigned flags) {
  *event = new FakeEvent;
  (*event)->timing = flags == met::gpu::cuda::kEventDefault;
  return kOk;
}
int cuEventDestroy_v2(FakeEvent* event) {
  delete event;
  return kOk;
}
int cuEventRecord(FakeEvent* event, FakeStream* stream) {
  event->capture = stream->capture;
  event->stream = stream;
  event->behind = stream->enqueued;
  return kOk;
}
int cuEventQuery(FakeEvent* event) { return event->capture.lock() ? kCapturedEvent : kOk; }
int cuEventSynchronize(FakeEvent* event) { return cuEventQuery(event); }
int cuEventElapsedTime(float* ms, FakeEvent* begin, FakeEvent* end_event) {
  if (!begin->timing || !end_event->timing) return kInvalidHandle;
  return *ms = 0.5F, kOk;
}

int cuModuleLoadData(void** module, const void* image) { return *module = const_cast<void*>(image), kOk; }
int cuModuleUnload(void*) { return kOk; }
int cuModuleGetFunction(void** function, void* module, const char* name) {
  *function = module;
  return std::string_view(name) == "probe_add_one" ? kOk : kMissing;
}
int cuFuncGetAttribute(int* value, int, void*) { return *value = 0, kOk; }
int cuFuncSetAttribute(void*, int, int value) { return value >= 0 ? kOk : kInvalidValue; }
int cuLaunchKernelEx(const CuLaunchConfig* config, void*, void** parameters, void**) {
  std::uint32_t* cells = nullptr;
  std::int64_t count = 0;
  std::memcpy(&cells, parameters[0], sizeof cells);
  std::memcpy(&count, parameters[1], sizeof count);
  return enqueue(reinterpret_cast<FakeStream*>(config->stream), [=] {
    for (std::int64_t i = 0; i < count; ++i) ++cells[i];
  });
}

int cuGraphInstantiateWithFlags(void** exec, std::vector<Work>* graph, unsigned long long) {
  return *exec = new std::vector<Work>(*graph), kOk;
}
int cuTensorMapEncodeTiled(void*, int, unsigned, std::uint64_t, const std::uint64_t*, const std::uint64_t*,
                           const std::uint32_t*, const std::uint32_t*, int, int, int, int) {
  return kOk;
}
int cuGraphUpload(void*, FakeStream*) { return kOk; }
int cuGraphLaunch(std::vector<Work>* exec, FakeStream* stream) {
  for (const Work& work : *exec) enqueue(stream, work);
  return kOk;
}
int cuGraphDestroy(std::vector<Work>* graph) {
  delete graph;
  return kOk;
}
int cuGraphExecDestroy(std::vector<Work>* exec) {
  delete exec;
  return kOk;
}

}  // extern "C"
