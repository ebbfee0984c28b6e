// `--dump`: requests and their answers as lines of JSON, for debugging.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "config/settings.h"
#include "core/clock.h"
#include "core/error.h"
#include "server/auth.h"

namespace met::server {

/// A directory of files DIR/met-dump-<time>-<n>.jsonl, of which the oldest goes when all are larger than
/// --dump-max-bytes. A line: {"ts", "seq", "kind": "request" | "answer", "endpoint", "id", "status", "bytes", "body"},
/// the body as the JSON that it is, else as text. No header is written, and a key that stands in a body is blotted out.
/// One thread writes; whoever gives it a record goes on at once. What it cannot take or write is dropped and counted.
class Dump {
 public:
  struct Record {
    std::int64_t unix_us = 0;
    std::uint64_t seq = 0;  ///< of a request, and of its answer
    std::string endpoint;   ///< "POST /v1/chat/completions"
    std::string id;
    std::optional<int> status;  ///< of an answer
    bool whole = true;          ///< false: the client left before its end
    std::size_t bytes = 0;      ///< of the whole body
    std::string body;           ///< its first kBodyBytes
  };
  static constexpr std::size_t kBodyBytes = 4U << 20U;

  /// Null without --dump. Errors: kIo naming --dump for a directory that cannot be made or written.
  static Result<std::unique_ptr<Dump>> open(const config::Settings& settings, const Auth& auth);
  Dump(std::filesystem::path directory, std::size_t bytes_max, const Auth& auth);
  ~Dump();

  std::uint64_t next() { return ++last_; }
  const UnixClock& clock() const { return clock_; }
  /// Safe from any thread.
  void add(Record record);
  std::uint64_t written() const { return written_; }
  std::uint64_t dropped() const { return dropped_; }

 private:
  void write_all();
  void write(Record record);
  Result<void> append(const std::string& line);
  void drop_oldest(std::size_t room);

  const std::filesystem::path directory_;
  const std::size_t bytes_max_;
  const Auth auth_;
  const UnixClock clock_;
  std::atomic<std::uint64_t> last_ = 0;
  std::atomic<std::uint64_t> written_ = 0;
  std::atomic<std::uint64_t> dropped_ = 0;

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Record> queue_;
  std::size_t queued_bytes_ = 0;
  bool ending_ = false;

  // of the writing thread
  int file_ = -1;
  std::size_t file_bytes_ = 0;
  std::uint64_t files_ = 0;
  bool failing_ = false;
  std::jthread thread_;
};

/// One exchange: its request at once, its answer when this goes.
class DumpedExchange {
 public:
  DumpedExchange(Dump& dump, std::string endpoint, std::string id, std::string_view request);
  ~DumpedExchange();
  DumpedExchange(const DumpedExchange&) = delete;
  DumpedExchange& operator=(const DumpedExchange&) = delete;

  void add(std::string_view bytes);
  /// What became of the answer, once it is known.
  void end(int status, bool whole);

 private:
  Dump& dump_;
  Dump::Record answer_;
};

}  // namespace met::server
