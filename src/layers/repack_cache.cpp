#include "layers/repack_cache.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <thread>
#include <vector>

#include "core/hex.h"
#include "core/log.h"
#include "core/write_all.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace met::layers {
namespace {

constexpr std::size_t kHeaderBytes = 64;

std::array<std::byte, kHeaderBytes> header_of(const RepackCache::Key& key, std::size_t bytes) {
  std::array<std::byte, kHeaderBytes> header{};
  std::memcpy(header.data(), "METPACK2", 8);
  std::memcpy(header.data() + 8, &bytes, 8);
  std::memcpy(header.data() + 16, key.data(), 16);
  return header;
}

std::string name_of(const RepackCache::Key& key) {
  std::string name;
  for (const std::uint64_t word : key) hex::append(word, 16, name);
  return name + ".metpack";
}

std::size_t pieces_of(std::size_t bytes) {
  return (bytes + RepackCache::kPieceBytes - 1) / RepackCache::kPieceBytes;
}

/// Calls work(i) for every i below `count` from up to `threads` threads.
template <class Work>
void share(std::size_t count, int threads, const Work& work) {
  std::atomic<std::size_t> next{0};
  const auto run = [&] {
    for (std::size_t i = next++; i < count; i = next++) work(i);
  };
  std::vector<std::jthread> others;
  for (int i = 1; i < threads && static_cast<std::size_t>(i) < count; ++i) others.emplace_back(run);
  run();
}

/// Hashes of the pieces; where `to` is given, of what was copied there.
std::vector<std::uint64_t> hash_pieces(std::span<const std::byte> from, std::byte* to, int threads) {
  std::vector<std::uint64_t> hashes(pieces_of(from.size()));
  share(hashes.size(), threads, [&](std::size_t i) {
    const std::size_t begin = i * RepackCache::kPieceBytes;
    const std::size_t size = std::min(RepackCache::kPieceBytes, from.size() - begin);
    if (to != nullptr) std::memcpy(to + begin, from.data() + begin, size);
    hashes[i] = XXH3_64bits((to != nullptr ? to : from.data()) + begin, size);
  });
  return hashes;
}

}  // namespace

RepackCache::Key RepackCache::key_of(const weights::Checkpoint& checkpoint, std::string_view variant,
                                     int threads) {
  XXH3_state_t state;
  XXH3_128bits_reset(&state);
  const auto add = [&](const void* data, std::size_t bytes) { XXH3_128bits_update(&state, data, bytes); };
  add(variant.data(), variant.size());
  for (const std::string_view name : checkpoint.names()) {
    const weights::TensorView& tensor = *checkpoint.find(name);
    const std::uint64_t sizes[] = {name.size(), static_cast<std::uint64_t>(tensor.dtype), tensor.shape.size(),
                                   tensor.bytes.size()};
    add(sizes, sizeof sizes);
    add(name.data(), name.size());
    add(tensor.shape.data(), tensor.shape.size_bytes());
    const std::vector<std::uint64_t> pieces = hash_pieces(tensor.bytes, nullptr, threads);
    add(pieces.data(), pieces.size() * sizeof(std::uint64_t));
  }
  const XXH128_hash_t hash = XXH3_128bits_digest(&state);
  return {hash.high64, hash.low64};
}

Result<std::unique_ptr<RepackCache>> RepackCache::open(const std::string& directory, const Key& key,
                                                       std::size_t bytes, int threads) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error || !std::filesystem::is_directory(directory, error))
    return invalid("--repack-cache", "cannot make the folder '" + directory +
                                         "': " + (error ? error.message() : "it is something else"));
  std::unique_ptr<RepackCache> cache(new RepackCache(directory + "/" + name_of(key), threads));
  if (!cache->begin_reading(key, bytes)) cache->begin_writing(key, bytes);
  return cache;
}

RepackCache::~RepackCache() {
  if (map_ != nullptr) ::munmap(const_cast<std::byte*>(map_), map_bytes_);
  if (state_ == State::kWriting) ::unlink((path_ + ".partial").c_str());
  if (file_ >= 0) ::close(file_);
}

bool RepackCache::begin_reading(const Key& key, std::size_t bytes) {
  const int file = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  struct stat status{};
  void* map = MAP_FAILED;
  if (::fstat(file, &status) == 0 && static_cast<std::size_t>(status.st_size) >= kHeaderBytes)
    map = ::mmap(nullptr, static_cast<std::size_t>(status.st_size), PROT_READ, MAP_SHARED, file, 0);
  ::close(file);
  if (map == MAP_FAILED) return false;
  map_ = static_cast<const std::byte*>(map);
  map_bytes_ = static_cast<std::size_t>(status.st_size);
  const auto header = header_of(key, bytes);
  if (std::memcmp(map_, header.data(), header.size()) != 0) {
    drop(path_, "is not what its name says");
    return false;
  }
  ::madvise(map, map_bytes_, MADV_WILLNEED);
  at_ = kHeaderBytes;
  state_ = State::kReading;
  return true;
}

void RepackCache::begin_writing(const Key& key, std::size_t bytes) {
  file_ = ::open((path_ + ".partial").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  // Another process that writes the same file is left to it.
  if (file_ >= 0 && ::flock(file_, LOCK_EX | LOCK_NB) != 0) return;
  if (file_ < 0 || ::ftruncate(file_, 0) != 0) {
    log::warn("--repack-cache: '" + path_ + "' cannot be written: " + std::strerror(errno));
    return;
  }
  state_ = State::kWriting;
  const auto header = header_of(key, bytes);
  append(header.data(), header.size());
}

bool RepackCache::append(const void* data, std::size_t bytes) {
  const int error = write_all(file_, data, bytes);
  if (error != 0) drop(path_ + ".partial", std::strerror(error));
  return error == 0;
}

void RepackCache::drop(const std::string& path, std::string_view why) {
  log::warn("--repack-cache: '" + path + "' is removed: " + std::string(why));
  ::unlink(path.c_str());
  state_ = State::kOff;
}

bool RepackCache::take(std::span<std::byte> to) {
  if (state_ != State::kReading) return false;
  const std::size_t table = pieces_of(to.size()) * sizeof(std::uint64_t);
  if (map_bytes_ - at_ < to.size() + table) {
    drop(path_, "it is too short");
    return false;
  }
  const std::vector<std::uint64_t> hashes = hash_pieces({map_ + at_, to.size()}, to.data(), threads_);
  if (std::memcmp(hashes.data(), map_ + at_ + to.size(), table) != 0) {
    drop(path_, "it is damaged");
    return false;
  }
  at_ += to.size() + table;
  return true;
}

void RepackCache::put(std::span<const std::byte> packed) {
  if (state_ != State::kWriting) return;
  const std::vector<std::uint64_t> hashes = hash_pieces(packed, nullptr, threads_);
  if (append(packed.data(), packed.size())) append(hashes.data(), hashes.size() * sizeof(std::uint64_t));
}

void RepackCache::finish() {
  if (state_ != State::kWriting) return;
  state_ = State::kOff;
  if (::rename((path_ + ".partial").c_str(), path_.c_str()) != 0)
    drop(path_ + ".partial", std::strerror(errno));
}

}  // namespace met::layers
