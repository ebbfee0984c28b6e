#include "gpu/cpu/cpu_backend.h"

#include <algorithm>
#include <string>

namespace met::gpu::cpu {
namespace {

constexpr std::string_view kIsaNames[kernels::kCpuIsaCount] = {"generic", "avx2", "avx512", "amx"};

StreamState& state(Stream stream) { return *reinterpret_cast<StreamState*>(stream.id); }
EventState& state(Event event) { return *reinterpret_cast<EventState*>(event.id); }
std::uint64_t id(const void* pointer) { return reinterpret_cast<std::uint64_t>(pointer); }
void* host(DevicePtr pointer) { return reinterpret_cast<void*>(pointer.value); }

template <class T>
std::unique_ptr<T> take(std::vector<std::unique_ptr<T>>& list, std::uint64_t wanted) {
  const auto found =
      std::find_if(list.begin(), list.end(), [&](const auto& p) { return id(p.get()) == wanted; });
  MET_CHECK(found != list.end(), "destroyed something that this backend did not create");
  std::unique_ptr<T> taken = std::move(*found);
  list.erase(found);
  return taken;
}

/// Runs a transfer on the calling thread alone, or records it.
template <class Args>
void enqueue(StreamState& stream, MetCpuKernel run, const Args& args) {
  if (stream.capture) {
    stream.capture->list->add(run, &args, sizeof args);
    ++stream.enqueued;
    return;
  }
  const MetCpuContext alone{.thread = 0,
                            .threads = 1,
                            .scratch = nullptr,
                            .scratch_bytes = 0,
                            .barrier = nullptr,
                            .next = nullptr,
                            .pool = nullptr};
  run(&args, &alone);
}

void release(Capture& capture) {
  for (StreamState* stream : capture.streams) {
    stream->enqueued = stream->joined = 0;
    stream->capture.reset();
  }
}

}  // namespace

CpuBackend::CpuBackend(const kernels::Target& target, kernels::CpuIsa isa, const CpuOptions& options)
    : check_bounds_(options.check_bounds), heap_(options.redzones), pool_(options.pool, read_topology()) {
  info_ = {.name = read_topology().name,
           .hardware = "cpu",
           .arch = std::string(kIsaNames[static_cast<int>(isa)]),
           .multiprocessors = pool_.threads(),
           .shared_memory_max = pool_.scratch_bytes(),
           .unified_memory = true,
           .feeds_ids = false};
  for (const kernels::Module& module : target.modules)
    for (const kernels::CpuFunction& function : module.functions)
      for (int level = static_cast<int>(isa); level >= 0; --level)
        if (function.by_isa[level] != nullptr) {
          functions_.push_back({module.name, function.name, function.by_isa[level]});
          break;
        }
}

CpuBackend::~CpuBackend() = default;

Result<> CpuBackend::check(DevicePtr pointer, std::size_t bytes) const {
  return check_bounds_ ? heap_.check_range(pointer, bytes) : Result<>{};
}

// ---- memory ----

Result<DevicePtr> CpuBackend::allocate(std::size_t bytes, std::string_view site) {
  return heap_.allocate(bytes, site);
}

void CpuBackend::free(DevicePtr pointer) { heap_.free(pointer); }

Result<PinnedHost> CpuBackend::allocate_pinned(std::size_t bytes) {
  MET_ASSIGN(const DevicePtr pointer, heap_.allocate(bytes, "pinned"));
  return PinnedHost{.host = host(pointer), .device = pointer, .bytes = bytes};
}

void CpuBackend::free_pinned(PinnedHost& memory) {
  heap_.free(memory.device);
  memory = {};
}

// ---- copies ----

Result<> CpuBackend::copy_to_device(DevicePtr to, const void* from, std::size_t bytes) {
  MET_TRY(check(to, bytes));
  if (bytes > 0) std::memcpy(host(to), from, bytes);
  return {};
}

Result<> CpuBackend::copy_to_host(void* to, DevicePtr from, std::size_t bytes) {
  MET_TRY(check(from, bytes));
  if (bytes > 0) std::memcpy(to, host(from), bytes);
  return {};
}

Result<> CpuBackend::copy_to_device_async(DevicePtr to, const void* from, std::size_t bytes, Stream stream) {
  MET_TRY(check(to, bytes));
  enqueue(state(stream), copy_task, CopyArgs{host(to), from, bytes});
  return {};
}

Result<> CpuBackend::copy_to_host_async(void* to, DevicePtr from, std::size_t bytes, Stream stream) {
  MET_TRY(check(from, bytes));
  enqueue(state(stream), copy_task, CopyArgs{to, host(from), bytes});
  return {};
}

Result<> CpuBackend::copy_async(DevicePtr to, DevicePtr from, std::size_t bytes, Stream stream) {
  MET_TRY(check(to, bytes));
  MET_TRY(check(from, bytes));
  enqueue(state(stream), copy_task, CopyArgs{host(to), host(from), bytes});
  return {};
}

Result<> CpuBackend::copy_rows_async(DevicePtr to, std::size_t to_pitch, DevicePtr from,
                                     std::size_t from_pitch, std::size_t width_bytes, std::size_t rows,
                                     Stream stream) {
  if (rows == 0) return {};
  MET_TRY(check(to, (rows - 1) * to_pitch + width_bytes));
  MET_TRY(check(from, (rows - 1) * from_pitch + width_bytes));
  enqueue(state(stream), copy_rows_task,
          CopyRowsArgs{static_cast<std::byte*>(host(to)), to_pitch, static_cast<std::byte*>(host(from)),
                       from_pitch, width_bytes, rows});
  return {};
}

Result<> CpuBackend::fill_async(DevicePtr to, std::uint8_t byte, std::size_t bytes, Stream stream) {
  MET_TRY(check(to, bytes));
  enqueue(state(stream), fill_task, FillArgs{host(to), bytes, byte});
  return {};
}

// ---- streams and events: everything enqueued outside a capture is done already ----

Stream CpuBackend::default_stream() { return {id(&default_stream_)}; }

Result<Stream> CpuBackend::create_stream() {
  const std::lock_guard lock(mutex_);
  return Stream{id(streams_.emplace_back(std::make_unique<StreamState>()).get())};
}

void CpuBackend::destroy(Stream stream) {
  MET_CHECK(!state(stream).capture, "a stream was destroyed while it captured");
  const std::lock_guard lock(mutex_);
  take(streams_, stream.id);
}

Result<> CpuBackend::synchronize(Stream stream) {
  const auto& capture = state(stream).capture;
  if (!capture) return {};
  capture->broken = "the stream was synchronized";
  return fail(ErrorCode::kInternal, "a stream that captures cannot be synchronized");
}

Result<Event> CpuBackend::create_event(bool timing) {
  const std::lock_guard lock(mutex_);
  EventState& event = *events_.emplace_back(std::make_unique<EventState>());
  event.timing = timing;
  return Event{id(&event)};
}

void CpuBackend::destroy(Event event) {
  const std::lock_guard lock(mutex_);
  take(events_, event.id);
}

Result<> CpuBackend::record(Event event, Stream stream) {
  EventState& e = state(event);
  e.stream = &state(stream);
  e.capture = e.stream->capture;
  e.behind = e.stream->enqueued;
  e.recorded = e.stream->capture == nullptr;
  if (e.recorded && e.timing) e.time = std::chrono::steady_clock::now();
  return {};
}

Result<> CpuBackend::wait(Stream stream, Event event) {
  const EventState& e = state(event);
  StreamState& s = state(stream);
  const auto capture = e.capture.lock();
  if (!capture) return {};
  if (s.capture && s.capture != capture) return fail(ErrorCode::kInternal, "the event is of another capture");
  if (!s.capture) {
    s.capture = capture;
    capture->streams.push_back(&s);
  }
  if (e.stream != &s) e.stream->joined = std::max(e.stream->joined, e.behind);
  return {};
}

Result<bool> CpuBackend::done(Event event) {
  if (state(event).capture.lock()) return fail(ErrorCode::kInternal, "the event was recorded in a capture");
  return true;
}

Result<> CpuBackend::synchronize(Event event) {
  MET_TRY(done(event));
  return {};
}

Result<double> CpuBackend::elapsed_ms(Event begin, Event end) {
  const EventState& a = state(begin);
  const EventState& b = state(end);
  if (!a.timing || !b.timing || !a.recorded || !b.recorded)
    return fail(ErrorCode::kInternal, "elapsed time needs two recorded events with timing");
  return std::chrono::duration<double, std::milli>(b.time - a.time).count();
}

// ---- kernels ----

Result<KernelHandle> CpuBackend::kernel(std::string_view module, std::string_view function) {
  for (std::size_t i = 0; i < functions_.size(); ++i)
    if (functions_[i].module == module && functions_[i].name == function)
      return KernelHandle{static_cast<std::uint32_t>(i)};
  return fail(ErrorCode::kNotFound, "no kernel '" + std::string(module) + "." + std::string(function) +
                                        "' for " + info_.arch + " in this target");
}

Result<> CpuBackend::launch(const KernelLaunch& launch, Stream stream) {
  MET_CHECK(launch.handle().index < functions_.size(), "launch of an unresolved kernel");
  const MetCpuKernel run = functions_[launch.handle().index].run;
  StreamState& s = state(stream);
  if (s.capture) {
    s.capture->list->add(run, launch.data(), launch.bytes());
    ++s.enqueued;
    return {};
  }
  const Task task{run, launch.data()};
  pool_.run({&task, 1});
  return {};
}

// ---- graphs ----

Result<> CpuBackend::begin_capture(Stream stream) {
  StreamState& s = state(stream);
  if (s.capture) return fail(ErrorCode::kInternal, "the stream captures already");
  s.capture = std::make_shared<Capture>();
  s.capture->streams.push_back(&s);
  return {};
}

Result<Graph> CpuBackend::end_capture(Stream stream) {
  const auto capture = state(stream).capture;
  if (!capture || capture->streams.front() != &state(stream))
    return fail(ErrorCode::kInternal, "no capture began on this stream");
  for (std::size_t i = 1; i < capture->streams.size() && capture->broken.empty(); ++i)
    if (capture->streams[i]->joined < capture->streams[i]->enqueued)
      capture->broken = "a stream of the capture was not joined";
  release(*capture);
  if (!capture->broken.empty()) return fail(ErrorCode::kInternal, "the capture failed: " + capture->broken);
  capture->list->freeze();
  const std::lock_guard lock(mutex_);
  return Graph{id(graphs_.emplace_back(std::move(capture->list)).get())};
}

void CpuBackend::abort_capture(Stream stream) {
  if (const auto capture = state(stream).capture) release(*capture);
}

bool CpuBackend::capturing(Stream stream) const { return state(stream).capture != nullptr; }

Result<> CpuBackend::launch(Graph graph, Stream stream) {
  if (state(stream).capture) return fail(ErrorCode::kUnsupported, "a graph cannot be launched in a capture");
  pool_.run(reinterpret_cast<const TaskList*>(graph.id)->tasks());
  return {};
}

void CpuBackend::destroy(Graph graph) {
  const std::lock_guard lock(mutex_);
  take(graphs_, graph.id);
}

Result<> CpuBackend::bind_thread() {
  pool_.pin_caller();
  return {};
}

}  // namespace met::gpu::cpu
