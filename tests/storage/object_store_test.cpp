#include "storage/object_store.h"

#include <gtest/gtest.h>

#include <thread>

namespace met::storage {
namespace {

class FakeClock final : public Clock {
 public:
  std::int64_t now_us() const override { return now; }
  std::int64_t now = 1'000'000'000;
};

ObjectStore<std::string>::Sized sized(std::string text) {
  const std::size_t bytes = text.size();
  return {std::make_shared<const std::string>(std::move(text)), bytes};
}

TEST(ObjectStore, ATenantSeesItsOwnAlone) {
  FakeClock clock;
  ObjectStore<std::string> store({}, clock);
  EXPECT_TRUE(store.put(1, "a", sized("one")));
  EXPECT_EQ(*store.get(1, "a"), "one");
  EXPECT_EQ(store.get(2, "a"), nullptr);
  EXPECT_FALSE(store.erase(2, "a"));
  EXPECT_TRUE(store.list(2).empty());
  EXPECT_EQ(store.update(2, "a", [](const std::string& old) { return sized(old + "!"); }), nullptr);
  EXPECT_TRUE(store.erase(1, "a"));
  EXPECT_EQ(store.get(1, "a"), nullptr);
  EXPECT_EQ(store.bytes(), 0U);
}

TEST(ObjectStore, ListsInTheOrderOfTheFirstPut) {
  FakeClock clock;
  ObjectStore<std::string> store({}, clock);
  for (const char* id : {"c", "a", "b"}) store.put(0, id, sized(id));
  store.update(0, "c", [](const std::string&) { return sized("changed"); });
  const auto all = store.list(0);
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(all[0].first, "c");
  EXPECT_EQ(*all[0].second, "changed");
  EXPECT_EQ(all[2].first, "b");
}

TEST(ObjectStore, ExpiresAfterTheLastWrite) {
  FakeClock clock;
  ObjectStore<std::string> store({.ttl_us = 100}, clock);
  store.put(0, "old", sized("x"));
  store.put(0, "kept", sized("x"));
  clock.now += 80;
  store.update(0, "kept", [](const std::string& old) { return sized(old); });
  clock.now += 80;
  EXPECT_EQ(store.get(0, "old"), nullptr);
  EXPECT_NE(store.get(0, "kept"), nullptr);
  EXPECT_EQ(store.entries(), 1U);
}

TEST(ObjectStore, TheLargestTenantGivesUpItsOldest) {
  FakeClock clock;
  ObjectStore<std::string> store({.entries_max = 4}, clock);
  store.put(1, "small", sized("x"));
  for (int i = 0; i < 6; ++i) store.put(2, std::to_string(i), sized(std::string(100, 'x')));
  EXPECT_NE(store.get(1, "small"), nullptr) << "another tenant's flood must not push it out";
  EXPECT_EQ(store.get(2, "2"), nullptr);
  EXPECT_NE(store.get(2, "3"), nullptr);
  EXPECT_EQ(store.entries(), 4U);
}

TEST(ObjectStore, BytesAreBounded) {
  FakeClock clock;
  ObjectStore<std::string> store({.bytes_max = 4000}, clock);
  for (int i = 0; i < 50; ++i) {
    store.put(0, std::to_string(i), sized(std::string(500, 'x')));
    EXPECT_LE(store.bytes(), 4000U);
  }
  EXPECT_NE(store.get(0, "49"), nullptr);
  EXPECT_FALSE(store.put(0, "whale", sized(std::string(5000, 'x'))));
  EXPECT_EQ(store.get(0, "whale"), nullptr);
  EXPECT_NE(store.get(0, "49"), nullptr);
}

TEST(ObjectStore, ManyThreads) {
  FakeClock clock;
  ObjectStore<std::string> store({.entries_max = 20}, clock);
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([&store, t] {
        for (int i = 0; i < 500; ++i) {
          const std::string id = std::to_string(i % 30);
          store.put(static_cast<std::uint64_t>(t), id, sized(id));
          const auto value = store.get(static_cast<std::uint64_t>(t), id);
          EXPECT_TRUE(value == nullptr || *value == id);
          store.update(static_cast<std::uint64_t>(t), id, [](const std::string& old) { return sized(old); });
          if (i % 7 == 0) store.erase(static_cast<std::uint64_t>(t), id);
        }
      });
  }
  EXPECT_LE(store.entries(), 20U);
}

}  // namespace
}  // namespace met::storage
