// Streams, events and captures of a backend that does its work on the thread that enqueues it: the CPU and
// the mock. Outside a capture everything enqueued is done, so ordering holds by itself.
#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "gpu/backend.h"

namespace met::gpu {

/// What a backend records during a capture and replays.
class Recording {
 public:
  virtual ~Recording() = default;
};

class DrainedBackend : public GpuBackend {
 public:
  Stream default_stream() override;
  Result<Stream> create_stream() override;
  void destroy(Stream stream) override;
  Result<> synchronize(Stream stream) override;
  Result<Event> create_event(bool timing) override;
  void destroy(Event event) override;
  Result<> record(Event event, Stream stream) override;
  Result<> wait(Stream stream, Event event) override;
  Result<bool> done(Event event) override;
  Result<> synchronize(Event event) override;
  Result<double> elapsed_ms(Event begin, Event end) override;

  Result<> begin_capture(Stream stream) override;
  Result<Graph> end_capture(Stream stream) override;
  void abort_capture(Stream stream) override;
  bool capturing(Stream stream) const override;
  Result<> launch(Graph graph, Stream stream) override;
  void destroy(Graph graph) override;

 protected:
  DrainedBackend();
  ~DrainedBackend() override;

  /// Where the next piece of work of the stream is recorded; null: it runs now.
  Recording* recording(Stream stream);

 private:
  struct StreamState;
  struct EventState;
  struct Capture;

  virtual std::unique_ptr<Recording> new_recording() = 0;
  /// Called when a capture ends well, before the first replay.
  virtual void finish(Recording& recording) = 0;
  virtual Result<> replay(Recording& recording, Stream stream) = 0;

  static StreamState& state(Stream stream) { return *reinterpret_cast<StreamState*>(stream.id); }
  static EventState& state(Event event) { return *reinterpret_cast<EventState*>(event.id); }
  static void release(Capture& capture);

  std::unique_ptr<StreamState> default_stream_;
  std::mutex mutex_;  // of the three lists
  std::vector<std::unique_ptr<StreamState>> streams_;
  std::vector<std::unique_ptr<EventState>> events_;
  std::vector<std::unique_ptr<Recording>> graphs_;
};

}  // namespace met::gpu
