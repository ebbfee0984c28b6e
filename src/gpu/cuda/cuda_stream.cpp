// Streams, events, launches and graphs of the CUDA backend.
#include <array>

#include "gpu/cuda/cuda_backend.h"
#include "gpu/find_kernel.h"

namespace met::gpu::cuda {
namespace {

CuStream native(Stream stream) { return reinterpret_cast<CuStream>(stream.id); }
CuEvent native(Event event) { return reinterpret_cast<CuEvent>(event.id); }
CuGraphExec native(Graph graph) { return reinterpret_cast<CuGraphExec>(graph.id); }
template <class T>
std::uint64_t id(T* pointer) {
  return reinterpret_cast<std::uint64_t>(pointer);
}

}  // namespace

// ---- streams and events ----

Result<Stream> CudaBackend::create_stream() {
  MET_TRY(bind_thread());
  CuStream stream = nullptr;
  MET_TRY(driver_.check(driver_.stream_create(&stream, kStreamNonBlocking), "creating a stream"));
  return Stream{id(stream)};
}

void CudaBackend::destroy(Stream stream) {
  (void)bind_thread();
  driver_.stream_destroy(native(stream));
}

Result<> CudaBackend::synchronize(Stream stream) {
  MET_TRY(bind_thread());
  return driver_.check(driver_.stream_synchronize(native(stream)), "synchronizing a stream");
}

Result<Event> CudaBackend::create_event(bool timing) {
  MET_TRY(bind_thread());
  CuEvent event = nullptr;
  const unsigned flags = timing ? kEventDefault : kEventNoTiming;
  MET_TRY(driver_.check(driver_.event_create(&event, flags), "creating an event"));
  return Event{id(event)};
}

void CudaBackend::destroy(Event event) {
  (void)bind_thread();
  driver_.event_destroy(native(event));
}

Result<> CudaBackend::record(Event event, Stream stream) {
  MET_TRY(bind_thread());
  return driver_.check(driver_.event_record(native(event), native(stream)), "recording an event");
}

Result<> CudaBackend::wait(Stream stream, Event event) {
  MET_TRY(bind_thread());
  return driver_.check(driver_.stream_wait(native(stream), native(event), 0), "waiting for an event");
}

Result<bool> CudaBackend::done(Event event) {
  MET_TRY(bind_thread());
  const CuResult result = driver_.event_query(native(event));
  if (result == kNotReady) return false;
  MET_TRY(driver_.check(result, "asking for an event"));
  return true;
}

Result<> CudaBackend::synchronize(Event event) {
  MET_TRY(bind_thread());
  return driver_.check(driver_.event_synchronize(native(event)), "waiting for an event");
}

Result<double> CudaBackend::elapsed_ms(Event begin, Event end) {
  MET_TRY(bind_thread());
  float ms = 0;
  MET_TRY(driver_.check(driver_.event_elapsed(&ms, native(begin), native(end)), "elapsed time"));
  return ms;
}

// ---- kernels ----

Result<KernelHandle> CudaBackend::kernel(std::string_view module, std::string_view function) {
  auto found = find_kernel(functions_, module, function, info_.arch);
  looked_up(module, function, found.has_value());
  return found;
}

Result<> CudaBackend::enqueue(const KernelLaunch& launch, Stream stream) {
  MET_CHECK(launch.handle().index < functions_.size(), "launch of an unresolved kernel");
  MET_TRY(bind_thread());
  std::array<void*, KernelLaunch::kArgumentsMax> parameters;
  for (std::size_t i = 0; i < launch.arguments(); ++i)
    parameters[i] = const_cast<std::byte*>(launch.data() + launch.offset(i));
  std::array<CuLaunchAttribute, 2> attributes{};
  unsigned count = 0;
  if (launch.is_dependent()) {
    attributes[count].id = kAttributeDependentLaunch;
    attributes[count++].value.allowed = 1;
  }
  const Dim3 cluster = launch.cluster();
  if (cluster.x * cluster.y * cluster.z > 1) {
    attributes[count].id = kAttributeCluster;
    attributes[count++].value.cluster = {cluster.x, cluster.y, cluster.z};
  }
  const Dim3 grid = launch.grid();
  const Dim3 block = launch.block();
  const CuLaunchConfig config{grid.x,
                              grid.y,
                              grid.z,
                              block.x,
                              block.y,
                              block.z,
                              launch.shared_bytes(),
                              native(stream),
                              attributes.data(),
                              count};
  const Function& function = functions_[launch.handle().index];
  const CuResult result = driver_.launch(&config, function.function, parameters.data(), nullptr);
  if (result == kSuccess) [[likely]]
    return {};
  return std::unexpected(driver_.error(
      result, "launching '" + std::string(function.module) + "." + std::string(function.name) + "'"));
}

Result<TensorMap> CudaBackend::tensor_map(const TensorMapSpec& spec) {
  // CUtensorMapDataType, CUtensorMapSwizzle and CUtensorMapL2promotion of the driver's interface.
  constexpr int kElements[] = {0 /* u8 */, 9 /* bf16 */, 6 /* f16 */, 7 /* f32 */};
  constexpr int kSwizzle128 = 3;
  constexpr int kPromote256 = 3;
  constexpr std::array<std::uint32_t, TensorMapSpec::kRankMax> kSteps{1, 1, 1, 1, 1};
  TensorMap map;
  const CuResult result = driver_.tensor_map_encode(
      map.bytes.data(), kElements[static_cast<int>(spec.element)], static_cast<unsigned>(spec.rank),
      spec.base.value, spec.extents.data(), spec.strides.data(), spec.box.data(), kSteps.data(), 0,
      spec.swizzle_128b ? kSwizzle128 : 0, kPromote256, 0);
  MET_TRY(driver_.check(result, "describing a tensor for bulk copies"));
  return map;
}

// ---- graphs ----

Result<> CudaBackend::begin_capture(Stream stream) {
  MET_TRY(bind_thread());
  if (capturing(stream)) return fail(ErrorCode::kInternal, "the stream captures already");
  return driver_.check(driver_.capture_begin(native(stream), kCaptureRelaxed), "beginning a capture");
}

Result<Graph> CudaBackend::end_capture(Stream stream) {
  MET_TRY(bind_thread());
  CuGraph graph = nullptr;
  if (const CuResult result = driver_.capture_end(native(stream), &graph); result != kSuccess) {
    abort_capture(stream);  // some failures leave the capture open
    return std::unexpected(driver_.error(result, "ending a capture"));
  }
  CuGraphExec exec = nullptr;
  const CuResult result = driver_.graph_instantiate(&exec, graph, 0);
  driver_.graph_destroy(graph);
  MET_TRY(driver_.check(result, "instantiating a graph"));
  if (const CuResult uploaded = driver_.graph_upload(exec, native(stream)); uploaded != kSuccess) {
    driver_.graph_exec_destroy(exec);
    return std::unexpected(driver_.error(uploaded, "uploading a graph"));
  }
  return Graph{id(exec)};
}

void CudaBackend::abort_capture(Stream stream) {
  if (!bind_thread() || !capturing(stream)) return;
  CuGraph graph = nullptr;
  driver_.capture_end(native(stream), &graph);  // an error means that nothing was kept
  if (graph != nullptr) driver_.graph_destroy(graph);
}

bool CudaBackend::capturing(Stream stream) const {
  int status = 0;
  return driver_.capture_status(native(stream), &status) == kSuccess && status != 0;
}

Result<> CudaBackend::launch(Graph graph, Stream stream) {
  MET_TRY(bind_thread());
  return driver_.check(driver_.graph_launch(native(graph), native(stream)), "launching a graph");
}

void CudaBackend::destroy(Graph graph) {
  (void)bind_thread();
  driver_.graph_exec_destroy(native(graph));
}

}  // namespace met::gpu::cuda
