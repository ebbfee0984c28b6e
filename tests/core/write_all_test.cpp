#include "core/write_all.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <thread>

namespace met {
namespace {

TEST(WriteAll, MoreThanOneCallTakesArrivesWhole) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  std::string text(1 << 20, '\0');  // a pipe holds 64 KiB
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * 7 >> 8U);
  std::string got;
  std::jthread reader([&] {
    char buffer[5000];
    for (ssize_t n = 0; (n = ::read(ends[0], buffer, sizeof buffer)) > 0;) got.append(buffer, n);
  });
  EXPECT_EQ(write_all(ends[1], text.data(), text.size()), 0);
  ::close(ends[1]);
  reader.join();
  EXPECT_EQ(got, text);
  ::close(ends[0]);
}

TEST(WriteAll, TheReasonOfAFailureComesBack) {
  EXPECT_EQ(write_all(-1, "x", 1), EBADF);
  EXPECT_EQ(write_all(-1, "", 0), 0);
  const int full = ::open("/dev/full", O_WRONLY);
  if (full < 0) GTEST_SKIP() << "no /dev/full here";
  EXPECT_EQ(write_all(full, "x", 1), ENOSPC);
  ::close(full);
}

}  // namespace
}  // namespace met
