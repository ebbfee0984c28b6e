#include "storage/block_file.h"

#include <fcntl.h>
#include <liburing.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace met::storage {
namespace {

constexpr unsigned kDepth = 32;  // requests in flight

std::unexpected<Error> io_error(const std::string& what, int error) {
  return fail(ErrorCode::kIo, what + ": " + std::strerror(error));
}

class UringFile final : public BlockFile {
 public:
  UringFile(int file, bool direct, std::size_t slot_bytes)
      : file_(file), direct_(direct), slot_bytes_(slot_bytes) {}
  ~UringFile() override {
    if (ready_) io_uring_queue_exit(&ring_);
    ::close(file_);
  }
  UringFile(const UringFile&) = delete;
  UringFile& operator=(const UringFile&) = delete;

  Result<> open_ring() {
    const int code = io_uring_queue_init(kDepth, &ring_, 0);
    if (code < 0) return io_error("io_uring is not to be had", -code);
    ready_ = true;
    return {};
  }

  Result<> write(std::span<const Piece> pieces) override { return transfer(pieces, /*write=*/true); }
  Result<> read(std::span<const Piece> pieces) override { return transfer(pieces, /*write=*/false); }
  bool direct() const override { return direct_; }

 private:
  /// Keeps the ring full; after an error it starts no more and waits for those in flight.
  Result<> transfer(std::span<const Piece> pieces, bool write) {
    if (!ready_) return fail(ErrorCode::kIo, "io_uring failed before");
    Result<> result;
    std::size_t started = 0;
    std::size_t done = 0;
    while (done < started || (result && started < pieces.size())) {
      while (result && started < pieces.size() && started - done < kDepth) prepare(pieces[started++], write);
      const int code = io_uring_submit_and_wait(&ring_, 1);
      if (code < 0 && code != -EINTR && code != -EAGAIN &&
          code != -EBUSY) {  // nobody knows what is in flight
        io_uring_queue_exit(&ring_);
        ready_ = false;
        return io_error("io_uring", -code);
      }
      io_uring_cqe* cqe = nullptr;
      while (io_uring_peek_cqe(&ring_, &cqe) == 0 && cqe != nullptr) {
        const int bytes = cqe->res;
        io_uring_cqe_seen(&ring_, cqe);
        ++done;
        if (!result || bytes == static_cast<int>(slot_bytes_)) continue;
        result = bytes < 0 ? io_error(write ? "writing a block" : "reading a block", -bytes)
                           : Result<>(fail(ErrorCode::kIo, "a block was transferred in part"));
      }
    }
    return result;
  }

  void prepare(const Piece& piece, bool write) {
    io_uring_sqe* sqe = io_uring_get_sqe(&ring_);
    MET_CHECK(sqe != nullptr, "a full ring");
    const auto bytes = static_cast<unsigned>(slot_bytes_);
    const auto offset = static_cast<std::uint64_t>(piece.slot) * slot_bytes_;
    write ? io_uring_prep_write(sqe, file_, piece.memory, bytes, offset)
          : io_uring_prep_read(sqe, file_, piece.memory, bytes, offset);
  }

  int file_;
  bool direct_;
  std::size_t slot_bytes_;
  io_uring ring_{};
  bool ready_ = false;
};

/// A file without a name in `directory`, or -errno.
int open_nameless(const std::string& directory, int flags) {
  int file = ::open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC | O_EXCL | flags, 0600);
  if (file >= 0) return file;
  if (errno != EOPNOTSUPP && errno != EISDIR) return -errno;
  std::string path = directory + "/met-swap-XXXXXX";  // the file system has no O_TMPFILE
  file = ::mkostemp(path.data(), O_CLOEXEC | flags);
  if (file < 0) return -errno;
  ::unlink(path.c_str());
  return file;
}

}  // namespace

Result<std::unique_ptr<BlockFile>> BlockFile::create(const std::string& directory, std::size_t slot_bytes,
                                                     std::int32_t slots) {
  MET_CHECK(slot_bytes % 4096 == 0 && slots > 0, "slots of whole pages");
  int file = open_nameless(directory, O_DIRECT);
  const bool direct = file >= 0;
  if (file == -EINVAL) file = open_nameless(directory, 0);
  if (file < 0) return io_error("a swap file in " + directory + " cannot be made", -file);
  auto opened = std::make_unique<UringFile>(file, direct, slot_bytes);
  const auto bytes = static_cast<off_t>(slot_bytes) * slots;
  if (const int code = ::posix_fallocate(file, 0, bytes); code != 0)
    return io_error(std::to_string(bytes) + " bytes in " + directory + " cannot be had", code);
  MET_TRY(opened->open_ring());
  return opened;
}

}  // namespace met::storage
