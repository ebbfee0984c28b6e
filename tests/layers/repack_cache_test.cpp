#include "layers/repack_cache.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace met::layers {
namespace {

namespace fs = std::filesystem;

class RepackCacheTest : public testing::Test {
 protected:
  RepackCacheTest() {
    std::mt19937_64 random(5);
    for (const std::size_t size : {std::size_t{100}, std::size_t{9} << 20U, std::size_t{1}}) {
      matrices_.emplace_back(size);
      for (std::byte& byte : matrices_.back()) byte = std::byte(random() & 0xFFU);
      bytes_ += size;
    }
  }
  ~RepackCacheTest() override { fs::remove_all(directory_); }

  std::unique_ptr<RepackCache> open(const RepackCache::Key& key = {1, 2}) {
    auto cache = RepackCache::open(directory_, key, bytes_, 2);
    EXPECT_TRUE(cache) << cache.error().message;
    return std::move(*cache);
  }
  /// One start: how many matrices came from the file. All are right, wherever they come from.
  int start(const RepackCache::Key& key = {1, 2}) {
    const auto cache = open(key);
    int taken = 0;
    for (const auto& matrix : matrices_) {
      std::vector<std::byte> got(matrix.size());
      if (cache->take(got)) {
        ++taken;
        EXPECT_EQ(got, matrix);
      } else {
        cache->put(matrix);
      }
    }
    cache->finish();
    return taken;
  }
  std::vector<std::string> files() const {
    std::vector<std::string> found;
    for (const auto& entry : fs::directory_iterator(directory_)) found.push_back(entry.path().string());
    return found;
  }

  std::string directory_ =
      (fs::temp_directory_path() / ("met_repack_" + std::to_string(::getpid()) + "/a/b")).string();
  std::vector<std::vector<std::byte>> matrices_;
  std::size_t bytes_ = 0;
};

TEST_F(RepackCacheTest, TheSecondStartTakesWhatTheFirstPut) {
  EXPECT_EQ(start(), 0);
  EXPECT_EQ(start(), 3);
  ASSERT_EQ(files().size(), 1U);
  EXPECT_THAT(files()[0], testing::HasSubstr("00000000000000010000000000000002.metpack"));
  struct stat status{};
  ASSERT_EQ(::stat(files()[0].c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0600U);
}

TEST_F(RepackCacheTest, AnotherKeyAndAnotherSizeAreOtherFiles) {
  EXPECT_EQ(start({1, 2}), 0);
  EXPECT_EQ(start({1, 3}), 0);
  EXPECT_EQ(start({1, 3}), 3);
  ++bytes_;
  EXPECT_EQ(start({1, 3}), 0);
}

TEST_F(RepackCacheTest, AnUnfinishedFileIsNotRead) {
  {
    const auto cache = open();
    std::vector<std::byte> got(matrices_[0].size());
    EXPECT_FALSE(cache->take(got));
    cache->put(matrices_[0]);
    EXPECT_EQ(files().size(), 1U);
    const auto other = open();  // while one writes, another neither reads nor disturbs
    EXPECT_FALSE(other->take(got));
    other->put(matrices_[0]);
    other->finish();
    EXPECT_THAT(files(), testing::ElementsAre(testing::HasSubstr(".partial")));
  }
  EXPECT_TRUE(files().empty());
  EXPECT_EQ(start(), 0);
  EXPECT_EQ(start(), 3);
}

TEST_F(RepackCacheTest, DamageCostsAPackingAndTheFile) {
  struct Case {
    const char* what;
    std::size_t at;
    int taken;
  };
  const std::size_t second = 64 + 100 + 8;
  for (const Case& c : {Case{"magic", 0, 0}, Case{"key", 17, 0}, Case{"first matrix", 64 + 50, 0},
                        Case{"a late piece", second + (std::size_t{8} << 20U) + 5, 1},
                        Case{"the hash of the last", second + (std::size_t{9} << 20U) + 24 + 1, 2}}) {
    EXPECT_EQ(start(), 0) << c.what;
    {
      std::fstream file(files().at(0), std::ios::in | std::ios::out | std::ios::binary);
      file.seekg(static_cast<std::streamoff>(c.at));
      const auto byte = static_cast<char>(file.get() ^ 1);
      file.seekp(static_cast<std::streamoff>(c.at));
      file.put(byte);
    }
    EXPECT_EQ(start(), c.taken) << c.what;
    if (files().empty()) continue;
    EXPECT_EQ(start(), 3) << c.what << ": written anew at once";
    fs::remove(files()[0]);
  }
}

TEST_F(RepackCacheTest, ACutFileIsDamaged) {
  for (const std::uintmax_t size : {0, 10, 64, 1000, (9 << 20) + 64 + 100}) {
    EXPECT_EQ(start(), 0) << size;
    fs::resize_file(files().at(0), size);
    EXPECT_LT(start(), 2) << size;
    fs::remove_all(directory_);
  }
}

TEST(RepackCache, AFolderThatCannotBeIsAnError) {
  const auto cache = RepackCache::open("/dev/null/x", {1, 2}, 100, 1);
  ASSERT_FALSE(cache);
  EXPECT_EQ(cache.error().field, "--repack-cache");
  EXPECT_EQ(cache.error().code, ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace met::layers
