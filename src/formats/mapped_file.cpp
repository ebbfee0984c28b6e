#include "formats/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

namespace met::formats {

namespace {

std::unexpected<Error> system_error(const std::string& path, const char* action) {
  const int code = errno;
  return fail(code == ENOENT || code == ENOTDIR ? ErrorCode::kNotFound : ErrorCode::kIo,
              std::string("cannot ") + action + " " + path + ": " + std::strerror(code), path);
}

std::uintptr_t page_size() {
  static const auto size = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  return size;
}

}  // namespace

Result<MappedFile> MappedFile::open(const std::string& path) {
  // O_NONBLOCK: opening a pipe must not wait for a writer.
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return system_error(path, "open");
  struct stat status{};
  if (fstat(fd, &status) != 0) {
    auto error = system_error(path, "inspect");
    close(fd);
    return error;
  }
  if (!S_ISREG(status.st_mode)) {
    close(fd);
    return invalid(path, path + " is no regular file");
  }
  MappedFile file;
  if (status.st_size > 0) {
    const auto size = static_cast<std::size_t>(status.st_size);
    void* const address = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (address == MAP_FAILED) {
      auto error = system_error(path, "map");
      close(fd);
      return error;
    }
    file.bytes_ = {static_cast<const std::byte*>(address), size};
  }
  close(fd);
  return file;
}

MappedFile::MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  return *this;
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

void MappedFile::prefetch(std::span<const std::byte> part) {
  if (part.empty()) return;
  const auto begin = reinterpret_cast<std::uintptr_t>(part.data()) & ~(page_size() - 1);
  const auto end = reinterpret_cast<std::uintptr_t>(part.data()) + part.size();
  madvise(reinterpret_cast<void*>(begin), end - begin, MADV_WILLNEED);
}

void MappedFile::release(std::span<const std::byte> part) {
  const auto address = reinterpret_cast<std::uintptr_t>(part.data());
  const auto begin = (address + page_size() - 1) & ~(page_size() - 1);
  const auto end = (address + part.size()) & ~(page_size() - 1);
  if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

}  // namespace met::formats
