#include "server/dump.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "core/concat.h"
#include "core/json.h"
#include "core/log.h"
#include "core/utf8.h"
#include "core/write_all.h"

namespace met::server {
namespace {

namespace fs = std::filesystem;
constexpr std::size_t kQueueBytes = 64U << 20U;
constexpr std::size_t kFilesKept = 8;  // a file is that part of all
constexpr std::string_view kStem = "met-dump-";

std::string valid_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const utf8::Decoded one = utf8::decode(text);
    out += one.valid ? text.substr(0, one.length) : std::string_view("\xEF\xBF\xBD");
    text.remove_prefix(one.length);
  }
  return out;
}

json::Value body_json(const std::string& body, bool cut) {
  if (!cut)
    if (auto parsed = json::parse(body); parsed && parsed->is_object()) return std::move(*parsed);
  return valid_utf8(body);
}

std::string line_of(const Dump::Record& record) {
  json::Object line;
  line.append("ts", static_cast<double>(record.unix_us) * 1e-6);
  line.append("seq", record.seq);
  line.append("kind", record.status ? "answer" : "request");
  line.append("endpoint", valid_utf8(record.endpoint));
  line.append("id", record.id);
  if (record.status) line.append("status", *record.status);
  if (!record.whole) line.append("whole", false);
  line.append("bytes", record.bytes);
  line.append("body", body_json(record.body, record.bytes > Dump::kBodyBytes));
  return json::write(line) + "\n";
}

/// Our files in the order of their names, which is that of their times.
std::vector<fs::directory_entry> files_in(const fs::path& directory) {
  std::vector<fs::directory_entry> out;
  std::error_code code;
  for (fs::directory_iterator it(directory, code), end; !code && it != end; it.increment(code))
    if (it->path().filename().string().starts_with(kStem) && it->path().extension() == ".jsonl")
      out.push_back(*it);
  std::ranges::sort(out);
  return out;
}

}  // namespace

Result<std::unique_ptr<Dump>> Dump::open(const config::Settings& settings, const Auth& auth) {
  if (settings.dump.empty()) return nullptr;
  const fs::path directory = settings.dump;
  std::error_code code;
  if (fs::create_directories(directory, code)) fs::permissions(directory, fs::perms::owner_all, code);
  if (code || !fs::is_directory(directory, code) || ::access(directory.c_str(), W_OK | X_OK) != 0)
    return fail(ErrorCode::kIo, concat("'", settings.dump, "' is no directory that can be written"),
                "--dump");
  log::warn(concat("--dump writes every prompt and answer to '", settings.dump, "'"));
  return std::make_unique<Dump>(directory, static_cast<std::size_t>(settings.dump_max_bytes), auth);
}

Dump::Dump(fs::path directory, std::size_t bytes_max, const Auth& auth)
    : directory_(std::move(directory)),
      bytes_max_(bytes_max),
      auth_(auth),
      thread_([this] { write_all(); }) {}

Dump::~Dump() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  wake_.notify_one();
  thread_.join();
  if (file_ >= 0) ::close(file_);
}

void Dump::add(Record record) {
  {
    const std::lock_guard lock(mutex_);
    if (queued_bytes_ + record.body.size() <= kQueueBytes) {
      queued_bytes_ += record.body.size();
      queue_.push_back(std::move(record));
      wake_.notify_one();
      return;
    }
  }
  ++dropped_;
}

void Dump::write_all() {
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [this] { return ending_ || !queue_.empty(); });
    if (queue_.empty()) return;
    Record record = std::move(queue_.front());
    queue_.pop_front();
    queued_bytes_ -= record.body.size();
    lock.unlock();
    write(std::move(record));
    lock.lock();
  }
}

void Dump::write(Record record) {
  auth_.hide_keys(record.body);
  const Result<void> done = append(line_of(record));
  ++(done ? written_ : dropped_);
  if (!done && !std::exchange(failing_, true))
    log::warn(concat("--dump: ", done.error().message, "; requests go on without it"));
  if (done) failing_ = false;
}

Result<void> Dump::append(const std::string& line) {
  if (file_ >= 0 && file_bytes_ + line.size() > bytes_max_ / kFilesKept) {
    ::close(file_);
    file_ = -1;
  }
  if (file_ < 0) {
    drop_oldest(std::max(line.size(), bytes_max_ / kFilesKept));
    char name[64];
    std::snprintf(name, sizeof name, "%s%016lld-%06llu.jsonl", kStem.data(),
                  static_cast<long long>(clock_.now_us()), static_cast<unsigned long long>(++files_));
    const fs::path path = directory_ / name;
    file_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_EXCL | O_CLOEXEC, 0600);
    file_bytes_ = 0;
    if (file_ < 0)
      return fail(ErrorCode::kIo, concat("cannot make '", path.string(), "': ", std::strerror(errno)), {});
  }
  if (const int why = met::write_all(file_, line.data(), line.size()); why != 0) {
    ::close(file_);  // what it holds of the line stays behind as its last
    file_ = -1;
    return fail(ErrorCode::kIo, concat("cannot write: ", std::strerror(why)), {});
  }
  file_bytes_ += line.size();
  return {};
}

/// Leaves `room` below the bound.
void Dump::drop_oldest(std::size_t room) {
  const std::vector<fs::directory_entry> files = files_in(directory_);
  std::size_t all = room;
  std::error_code ignored;
  for (const fs::directory_entry& file : files)
    if (const auto size = file.file_size(ignored); !ignored) all += size;
  for (const fs::directory_entry& file : files) {
    if (all <= bytes_max_) return;
    const auto size = file.file_size(ignored);
    if (fs::remove(file.path(), ignored)) all -= std::min<std::size_t>(all, size);
  }
}

DumpedExchange::DumpedExchange(Dump& dump, std::string endpoint, std::string id, std::string_view request)
    : dump_(dump) {
  answer_.seq = dump.next();
  answer_.endpoint = std::move(endpoint);
  answer_.id = std::move(id);
  Dump::Record record = answer_;
  record.unix_us = dump.clock().now_us();
  record.bytes = request.size();
  record.body = request.substr(0, Dump::kBodyBytes);
  dump.add(std::move(record));
  answer_.status = 0;
  answer_.whole = false;
}

DumpedExchange::~DumpedExchange() {
  answer_.unix_us = dump_.clock().now_us();
  dump_.add(std::move(answer_));
}

void DumpedExchange::add(std::string_view bytes) {
  answer_.bytes += bytes.size();
  answer_.body += bytes.substr(0, Dump::kBodyBytes - answer_.body.size());
}

void DumpedExchange::end(int status, bool whole) {
  answer_.status = status;
  answer_.whole = whole;
}

}  // namespace met::server
