// The file behind the swap pool: what is written is read back, out of order and many at a time; refusals name the place.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <numeric>
#include <random>
#include <vector>

#include "storage/block_file.h"

namespace met::storage {
namespace {

constexpr std::size_t kSlotBytes = 3 * 4096;

struct Memory {
  explicit Memory(std::size_t slots) : bytes(slots * kSlotBytes + 4096) {
    const auto address = reinterpret_cast<std::uintptr_t>(bytes.data());
    data = bytes.data() + (4096 - address % 4096) % 4096;
  }
  std::byte* slot(std::size_t i) { return data + i * kSlotBytes; }
  std::vector<std::byte> bytes;
  std::byte* data;
};

std::vector<BlockFile::Piece> pieces_of(Memory& memory, const std::vector<std::int32_t>& slots) {
  std::vector<BlockFile::Piece> pieces;
  for (std::size_t i = 0; i < slots.size(); ++i) pieces.push_back({slots[i], memory.slot(i)});
  return pieces;
}

TEST(BlockFile, ReadsBackWhatItWroteInAnyOrder) {  // S25: more pieces than the ring holds
  constexpr std::size_t kSlots = 100;
  auto file = BlockFile::create(std::filesystem::temp_directory_path(), kSlotBytes, kSlots);
  ASSERT_TRUE(file) << file.error().message;
  std::mt19937 random(3);
  Memory written(kSlots);
  for (std::byte& byte : written.bytes) byte = static_cast<std::byte>(random());
  std::vector<std::int32_t> slots(kSlots);
  std::iota(slots.begin(), slots.end(), 0);
  std::ranges::shuffle(slots, random);
  ASSERT_TRUE((*file)->write(pieces_of(written, slots)));
  Memory read(kSlots);
  ASSERT_TRUE((*file)->read(pieces_of(read, slots)));
  EXPECT_EQ(std::memcmp(written.data, read.data, kSlots * kSlotBytes), 0);
  std::swap(slots[3], slots[40]);
  ASSERT_TRUE((*file)->read(pieces_of(read, slots)));
  EXPECT_EQ(std::memcmp(written.slot(40), read.slot(3), kSlotBytes), 0) << "a slot is found by its number";
  EXPECT_TRUE((*file)->write({}));
}

TEST(BlockFile, LeavesNothingBehind) {
  const std::filesystem::path directory = std::filesystem::temp_directory_path() / "met-block-file-test";
  std::filesystem::create_directory(directory);
  {
    auto file = BlockFile::create(directory, kSlotBytes, 4);
    ASSERT_TRUE(file) << file.error().message;
    EXPECT_TRUE(std::filesystem::is_empty(directory)) << "the file has no name";
  }
  EXPECT_TRUE(std::filesystem::remove(directory));
}

TEST(BlockFile, ReadingPastItsEndIsAnError) {
  auto file = BlockFile::create(std::filesystem::temp_directory_path(), kSlotBytes, 4);
  ASSERT_TRUE(file);
  Memory memory(1);
  const BlockFile::Piece piece{.slot = 4, .memory = memory.slot(0)};
  const Result<> read = (*file)->read({&piece, 1});
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, ErrorCode::kIo);
  const BlockFile::Piece fine{.slot = 3, .memory = memory.slot(0)};
  EXPECT_TRUE((*file)->read({&fine, 1})) << "an error does not spoil what follows";
}

TEST(BlockFile, ADirectoryThatCannotHoldItIsNamed) {
  const auto missing = BlockFile::create("/nowhere/at/all", kSlotBytes, 4);
  ASSERT_FALSE(missing);
  EXPECT_NE(missing.error().message.find("/nowhere/at/all"), std::string::npos);
  const auto large = BlockFile::create(std::filesystem::temp_directory_path(), std::size_t{1} << 30, 1 << 20);
  ASSERT_FALSE(large) << "a petabyte";
  EXPECT_NE(large.error().message.find("cannot be had"), std::string::npos) << large.error().message;
}

}  // namespace
}  // namespace met::storage
