#include "gpu/drained.h"

#include <algorithm>

namespace met::gpu {

struct DrainedBackend::StreamState {
  std::shared_ptr<Capture> capture;
  std::uint64_t enqueued = 0;  // pieces of work of this capture
  std::uint64_t joined = 0;    // how many of them the capture's first stream waits for
};

struct DrainedBackend::EventState {
  bool timing = false;
  bool recorded = false;
  std::chrono::steady_clock::time_point time;
  std::weak_ptr<Capture> capture;  // recorded within it: a dependency, not a time
  StreamState* stream = nullptr;
  std::uint64_t behind = 0;  // pieces of work of `stream` before the record
};

/// Work is recorded in the order in which it is enqueued, which is one valid order of all streams that take
/// part.
struct DrainedBackend::Capture {
  std::unique_ptr<Recording> recording;
  std::vector<StreamState*> streams;  // the first is where the capture began
  std::string broken;                 // why it cannot end well; empty: it can
};

namespace {

std::uint64_t id(const void* pointer) { return reinterpret_cast<std::uint64_t>(pointer); }

template <class T>
void erase(std::vector<std::unique_ptr<T>>& list, std::uint64_t wanted) {
  const auto found =
      std::find_if(list.begin(), list.end(), [&](const auto& p) { return id(p.get()) == wanted; });
  MET_CHECK(found != list.end(), "destroyed something that this backend did not create");
  list.erase(found);
}

}  // namespace

DrainedBackend::DrainedBackend() : default_stream_(std::make_unique<StreamState>()) {}
DrainedBackend::~DrainedBackend() = default;

Recording* DrainedBackend::recording(Stream stream) {
  StreamState& s = state(stream);
  if (!s.capture) return nullptr;
  ++s.enqueued;
  return s.capture->recording.get();
}

// ---- streams and events ----

Stream DrainedBackend::default_stream() { return {id(default_stream_.get())}; }

Result<Stream> DrainedBackend::create_stream() {
  const std::lock_guard lock(mutex_);
  return Stream{id(streams_.emplace_back(std::make_unique<StreamState>()).get())};
}

void DrainedBackend::destroy(Stream stream) {
  MET_CHECK(!state(stream).capture, "a stream was destroyed while it captured");
  const std::lock_guard lock(mutex_);
  erase(streams_, stream.id);
}

Result<> DrainedBackend::synchronize(Stream stream) {
  const auto& capture = state(stream).capture;
  if (!capture) return {};
  capture->broken = "the stream was synchronized";
  return fail(ErrorCode::kInternal, "a stream that captures cannot be synchronized");
}

Result<Event> DrainedBackend::create_event(bool timing) {
  const std::lock_guard lock(mutex_);
  EventState& event = *events_.emplace_back(std::make_unique<EventState>());
  event.timing = timing;
  return Event{id(&event)};
}

void DrainedBackend::destroy(Event event) {
  const std::lock_guard lock(mutex_);
  erase(events_, event.id);
}

Result<> DrainedBackend::record(Event event, Stream stream) {
  EventState& e = state(event);
  e.stream = &state(stream);
  e.capture = e.stream->capture;
  e.behind = e.stream->enqueued;
  e.recorded = e.stream->capture == nullptr;
  if (e.recorded && e.timing) e.time = std::chrono::steady_clock::now();
  return {};
}

Result<> DrainedBackend::wait(Stream stream, Event event) {
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

Result<bool> DrainedBackend::done(Event event) {
  if (state(event).capture.lock()) return fail(ErrorCode::kInternal, "the event was recorded in a capture");
  return true;
}

Result<> DrainedBackend::synchronize(Event event) {
  MET_TRY(done(event));
  return {};
}

Result<double> DrainedBackend::elapsed_ms(Event begin, Event end) {
  const EventState& a = state(begin);
  const EventState& b = state(end);
  if (!a.timing || !b.timing || !a.recorded || !b.recorded)
    return fail(ErrorCode::kInternal, "elapsed time needs two recorded events with timing");
  return std::chrono::duration<double, std::milli>(b.time - a.time).count();
}

// ---- captures and graphs ----

void DrainedBackend::release(Capture& capture) {
  for (StreamState* stream : capture.streams) {
    stream->enqueued = stream->joined = 0;
    stream->capture.reset();
  }
}

Result<> DrainedBackend::begin_capture(Stream stream) {
  StreamState& s = state(stream);
  if (s.capture) return fail(ErrorCode::kInternal, "the stream captures already");
  s.capture = std::make_shared<Capture>();
  s.capture->recording = new_recording();
  s.capture->streams.push_back(&s);
  return {};
}

Result<Graph> DrainedBackend::end_capture(Stream stream) {
  const auto capture = state(stream).capture;
  if (!capture || capture->streams.front() != &state(stream))
    return fail(ErrorCode::kInternal, "no capture began on this stream");
  for (std::size_t i = 1; i < capture->streams.size() && capture->broken.empty(); ++i)
    if (capture->streams[i]->joined < capture->streams[i]->enqueued)
      capture->broken = "a stream of the capture was not joined";
  release(*capture);
  if (!capture->broken.empty()) return fail(ErrorCode::kInternal, "the capture failed: " + capture->broken);
  finish(*capture->recording);
  const std::lock_guard lock(mutex_);
  return Graph{id(graphs_.emplace_back(std::move(capture->recording)).get())};
}

void DrainedBackend::abort_capture(Stream stream) {
  if (const auto capture = state(stream).capture) release(*capture);
}

bool DrainedBackend::capturing(Stream stream) const { return state(stream).capture != nullptr; }

Result<> DrainedBackend::launch(Graph graph, Stream stream) {
  if (state(stream).capture) return fail(ErrorCode::kUnsupported, "a graph cannot be launched in a capture");
  return replay(*reinterpret_cast<Recording*>(graph.id), stream);
}

void DrainedBackend::destroy(Graph graph) {
  const std::lock_guard lock(mutex_);
  erase(graphs_, graph.id);
}

}  // namespace met::gpu
