// One suite for both homes of a store: a file and memory.
#include "storage/object_store.h"

#include <gmock/gmock.h>
#include <sqlite3.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/storage/temp_directory.h"

namespace met::storage {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class FakeClock final : public Clock {
 public:
  std::int64_t now_us() const override { return now; }
  std::int64_t now = 1'000'000'000;
};

Key key(std::uint64_t tenant, std::string id, int kind = 0) {
  return {.kind = kind, .tenant = tenant, .id = std::move(id)};
}

/// The store with one operation a transaction, as most tests want it.
class Store {
 public:
  Store(const std::string& directory, const StoreLimits& limits, const Clock& clock) {
    auto opened = ObjectStore::open(directory, limits, clock);
    EXPECT_TRUE(opened) << opened.error().message;
    store_ = std::move(*opened);
  }
  /// The value of `work`, committed.
  template <class Work>
  auto in(Work work) {
    store_->begin();
    store_->begin_operation();
    auto out = work(*store_);
    const auto ended = store_->end_operation(true);
    EXPECT_FALSE(ended.error) << ended.error->message;
    EXPECT_TRUE(store_->commit());
    return out;
  }
  /// False: refused and undone.
  bool put(const Key& at, const std::string& body) {
    store_->begin();
    store_->begin_operation();
    const bool kept = store_->put(at, {.body = body}).has_value();
    EXPECT_FALSE(store_->end_operation(kept).error);
    EXPECT_TRUE(store_->commit());
    return kept;
  }
  std::string get(const Key& at) {
    return in([&](ObjectStore& s) { return s.get(at).value_or(Object{.body = "none"}).body; });
  }
  bool erase(const Key& at) {
    return in([&](ObjectStore& s) { return s.erase(at); });
  }
  std::vector<std::string> list(std::uint64_t tenant, int kind = 0) {
    return in([&](ObjectStore& s) {
      std::vector<std::string> out;
      for (const Listed& entry : s.list(kind, tenant)) out.push_back(entry.id);
      return out;
    });
  }
  std::int64_t bytes() {
    return in([](ObjectStore& s) { return s.bytes(); });
  }
  std::int64_t entries(int kind = 0) {
    return in([&](ObjectStore& s) { return s.entries(kind); });
  }
  ObjectStore& operator*() { return *store_; }

 private:
  std::unique_ptr<ObjectStore> store_;
};

class BothHomes : public ::testing::TestWithParam<bool> {
 protected:
  Store open(const StoreLimits& limits = {}) {
    return Store(GetParam() ? directory_.path() : std::string(), limits, clock_);
  }
  TempDirectory directory_;
  FakeClock clock_;
};
INSTANTIATE_TEST_SUITE_P(, BothHomes, ::testing::Bool(),
                         [](const auto& home) { return home.param ? "File" : "Memory"; });

TEST_P(BothHomes, ATenantSeesItsOwnAlone) {
  Store store = open();
  EXPECT_TRUE(store.put(key(1, "a"), "one"));
  EXPECT_EQ(store.get(key(1, "a")), "one");
  EXPECT_EQ(store.get(key(2, "a")), "none");
  EXPECT_EQ(store.get(key(1, "a", 1)), "none") << "another kind";
  EXPECT_FALSE(store.erase(key(2, "a")));
  EXPECT_THAT(store.list(2), ElementsAre());
  EXPECT_TRUE(store.put(key(2, "a"), "two"));
  EXPECT_EQ(store.get(key(1, "a")), "one");
  EXPECT_TRUE(store.erase(key(1, "a")));
  EXPECT_EQ(store.get(key(1, "a")), "none");
  EXPECT_EQ(store.get(key(2, "a")), "two");
  EXPECT_TRUE(store.erase(key(2, "a")));
  EXPECT_EQ(store.bytes(), 0);
}

TEST_P(BothHomes, KeepsTheOrderOfTheFirstPut) {
  Store store = open();
  for (const char* id : {"c", "a", "b"}) store.put(key(~0ULL, id), id);
  store.put(key(~0ULL, "c"), "changed");
  EXPECT_THAT(store.list(~0ULL), ElementsAre("c", "a", "b"));
  EXPECT_EQ(store.get(key(~0ULL, "c")), "changed");
  EXPECT_EQ(store.entries(), 3);
}

TEST_P(BothHomes, TextsComeBackAsTheyAre) {
  Store store = open();
  const std::string odd("\0 \"'\xF0\x9F\x99\x82;--\n", 12);
  EXPECT_TRUE(store.put(key(1, odd), odd));
  EXPECT_EQ(store.get(key(1, odd)), odd);
  const std::string large(3'000'000, 'x');
  EXPECT_TRUE(store.put(key(1, "large"), large));
  EXPECT_EQ(store.get(key(1, "large")), large);
}

TEST_P(BothHomes, ExpiresAfterTheLastWrite) {
  Store store = open({.ttl_us = 100});
  store.put(key(0, "old"), "x");
  store.put(key(0, "kept"), "x");
  clock_.now += 80;
  store.put(key(0, "kept"), "y");
  clock_.now += 80;
  EXPECT_EQ(store.get(key(0, "old")), "none");
  EXPECT_EQ(store.get(key(0, "kept")), "y");
  EXPECT_EQ(store.entries(), 1);
}

TEST_P(BothHomes, TheLargestTenantGivesUpItsOldest) {
  Store store = open({.entries_max = {4, 4, 4}});
  store.put(key(1, "small"), "x");
  store.put(key(2, "another kind", 1), "x");
  for (int i = 0; i < 6; ++i) store.put(key(2, std::to_string(i)), std::string(100, 'x'));
  EXPECT_EQ(store.get(key(1, "small")), "x") << "another tenant's flood must not push it out";
  EXPECT_THAT(store.list(2), ElementsAre("3", "4", "5"));
  EXPECT_THAT(store.list(2, 1), ElementsAre("another kind"));
}

TEST_P(BothHomes, OneEntryAtMostIsTheLast) {
  Store store = open({.entries_max = {1, 1, 1}});
  for (std::uint64_t tenant = 1; tenant < 4; ++tenant) {
    EXPECT_TRUE(store.put(key(tenant, "x"), "x"));
    EXPECT_EQ(store.entries(), 1);
    EXPECT_EQ(store.get(key(tenant, "x")), "x");
  }
}

TEST_P(BothHomes, BytesAreBounded) {
  Store store = open({.bytes_max = 4000});
  for (std::uint64_t i = 0; i < 50; ++i) {
    store.put(key(i % 3, std::to_string(i)), std::string(500, 'x'));
    EXPECT_LE(store.bytes(), 4000);
  }
  EXPECT_NE(store.get(key(1, "49")), "none");
  const std::vector<std::string> before = store.list(1);
  EXPECT_FALSE(store.put(key(1, "whale"), std::string(5000, 'x')));
  EXPECT_EQ(store.get(key(1, "whale")), "none");
  EXPECT_EQ(store.list(1), before) << "what is refused pushes nothing out";
}

// ---- items

std::vector<std::string> ids(ObjectStore& store, ItemNumber base, ItemNumber tip) {
  std::vector<std::string> out;
  for (const ItemRef& item : store.chain(base, tip)) out.push_back(item.id + store.item_body(item.number));
  return out;
}

TEST_P(BothHomes, AChainIsSharedAndGoesWithItsLastUser) {
  Store store = open();
  const std::vector<NewItem> first = {{"a", "1"}, {"b", "2"}};
  const std::vector<NewItem> second = {{"c", "3"}};
  const auto put = [&](const char* id, ItemNumber base, const std::vector<NewItem>& items) {
    return store.in([&](ObjectStore& s) {
      const ItemNumber tip = s.append(1, base, items);
      EXPECT_TRUE(s.put(key(1, id), {.base = base, .tip = tip, .body = id}));
      return tip;
    });
  };
  const ItemNumber root = put("root", 0, first);
  const ItemNumber left = put("left", root, second);
  const ItemNumber right = put("right", root, second);
  store.erase(key(1, "root"));
  store.in([&](ObjectStore& s) {
    EXPECT_THAT(ids(s, 0, left), ElementsAre("a1", "b2", "c3"));
    EXPECT_THAT(ids(s, root, right), ElementsAre("c3"));
    EXPECT_TRUE(s.stands(root));
    return 0;
  });
  store.erase(key(1, "left"));
  store.in([&](ObjectStore& s) {
    EXPECT_FALSE(s.stands(left));
    EXPECT_TRUE(s.stands(root)) << "the other one continues it";
    return 0;
  });
  store.put(key(1, "right"), "without items");
  EXPECT_FALSE(store.in([&](ObjectStore& s) { return s.stands(root); }));
  store.erase(key(1, "right"));
  EXPECT_EQ(store.bytes(), 0);
}

TEST_P(BothHomes, AnObjectGrowsAtItsTip) {
  Store store = open();
  for (int i = 0; i < 50; ++i)
    store.in([&](ObjectStore& s) {
      const ItemNumber tip = s.get(key(1, "x")).value_or(Object{}).tip;
      const std::vector<NewItem> items = {{std::to_string(i), ""}};
      EXPECT_TRUE(s.put(key(1, "x"), {.tip = s.append(1, tip, items)}));
      return 0;
    });
  store.in([&](ObjectStore& s) {
    const std::vector<ItemRef> all = s.chain(0, s.get(key(1, "x"))->tip);
    EXPECT_EQ(all.size(), 50U);
    for (std::size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i].id, std::to_string(i));
    return 0;
  });
  store.erase(key(1, "x"));
  EXPECT_EQ(store.bytes(), 0);
}

TEST_P(BothHomes, AnOperationThatIsNotKeptChangesNothing) {
  Store store = open();
  store.put(key(1, "a"), "before");
  ObjectStore& s = *store;
  s.begin();
  s.begin_operation();
  EXPECT_TRUE(s.put(key(1, "a"), {.body = "after"}));
  EXPECT_FALSE(s.end_operation(false).error);
  s.begin_operation();
  EXPECT_TRUE(s.put(key(1, "b"), {.body = "kept"}));
  EXPECT_FALSE(s.end_operation(true).error);
  EXPECT_TRUE(s.commit());
  EXPECT_EQ(store.get(key(1, "a")), "before");
  EXPECT_EQ(store.get(key(1, "b")), "kept");
}

// ---- files

class Files : public ::testing::Test {
 protected:
  std::string refusal(const std::string& directory) {
    const auto opened = ObjectStore::open(directory, {}, clock_);
    return opened ? "opened" : opened.error().message;
  }
  std::string file() const { return directory_.path() + "/objects.sqlite"; }
  /// Runs SQL on the file, as somebody else would.
  void meddle(const char* sql) {
    sqlite3* other = nullptr;
    ASSERT_EQ(sqlite3_open(file().c_str(), &other), SQLITE_OK);
    EXPECT_EQ(sqlite3_exec(other, sql, nullptr, nullptr, nullptr), SQLITE_OK) << sqlite3_errmsg(other);
    sqlite3_close(other);
  }
  TempDirectory directory_;
  FakeClock clock_;
};

TEST_F(Files, HoldWhatWasCommitted) {
  for (int run = 0; run < 3; ++run) {
    Store store(directory_.path(), {}, clock_);
    for (int i = 0; i < run; ++i) EXPECT_EQ(store.get(key(1, std::to_string(i))), "x");
    EXPECT_EQ(store.get(key(1, "deleted")), "none");
    store.put(key(1, std::to_string(run)), "x");
    store.put(key(1, "deleted"), "x");
    store.erase(key(1, "deleted"));
  }
  clock_.now += StoreLimits{}.ttl_us + 1;
  Store store(directory_.path(), {}, clock_);
  EXPECT_THAT(store.list(1), ElementsAre()) << "time goes on while the process is away";
}

TEST_F(Files, NameWhatIsOpen) {
  {
    Store store(directory_.path(), {}, clock_);
    store.put(key(1, "whole"), "x");
    store.in([](ObjectStore& s) { return s.put(key(7, "open", 2), {.state = State::kOpen}).has_value(); });
  }
  Store store(directory_.path(), {}, clock_);
  const std::vector<Key> open = store.in([](ObjectStore& s) { return s.open_objects(); });
  ASSERT_EQ(open.size(), 1U);
  EXPECT_EQ(open[0].kind, 2);
  EXPECT_EQ(open[0].tenant, 7U);
  EXPECT_EQ(open[0].id, "open");
}

TEST_F(Files, OfSomebodyElseAreRefused) {
  EXPECT_THAT(refusal("/dev/null/x"), HasSubstr("cannot make the directory '/dev/null/x'"));
  EXPECT_THAT(refusal("/dev/null"), HasSubstr("cannot write into '/dev/null'"));
  meddle("CREATE TABLE theirs (a)");
  EXPECT_THAT(refusal(directory_.path()), HasSubstr("objects.sqlite' is a SQLite file of something else"));
  std::filesystem::remove(file());
  std::ofstream(file()) << std::string(5000, 'x');
  EXPECT_THAT(refusal(directory_.path()), HasSubstr("objects.sqlite' is no SQLite file"));
}

TEST_F(Files, OfANewerVersionAreRefused) {
  {
    Store store(directory_.path(), {}, clock_);
  }
  EXPECT_EQ(refusal(directory_.path()), "opened");
  meddle("PRAGMA user_version = 2");
  EXPECT_THAT(refusal(directory_.path()),
              HasSubstr("was written by a newer version: its format is 2, this version reads up to 1"));
}

TEST_F(Files, ThatAreDamagedAreRefused) {
  {
    Store store(directory_.path(), {}, clock_);
    for (int i = 0; i < 100; ++i) store.put(key(1, std::to_string(i)), std::string(1000, 'x'));
  }
  const auto size = std::filesystem::file_size(file());
  {
    std::fstream out(file(), std::ios::in | std::ios::out | std::ios::binary);
    out.seekp(static_cast<std::streamoff>(size / 2));
    out << std::string(8192, '\x5A');
  }
  EXPECT_THAT(refusal(directory_.path()), HasSubstr("objects.sqlite' is damaged"));
  std::filesystem::resize_file(file(), 2048);
  EXPECT_THAT(refusal(directory_.path()), HasSubstr("objects.sqlite' is damaged"));
}

TEST_F(Files, BelongToOneProcess) {
  Store store(directory_.path(), {}, clock_);
  store.put(key(1, "a"), "x");
  const pid_t child = fork();
  if (child == 0) {
    const std::string said = refusal(directory_.path());
    _exit(said.find("is in use by another process") != std::string::npos ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_EQ(store.get(key(1, "a")), "x");
}

TEST_F(Files, AreForTheirOwnerAlone) {
  Store store(directory_.path() + "/new", {}, clock_);
  store.put(key(1, "a"), "x");
  namespace fs = std::filesystem;
  for (const auto& path : {directory_.path() + "/new", directory_.path() + "/new/objects.sqlite",
                           directory_.path() + "/new/objects.sqlite-wal"})
    EXPECT_EQ(fs::status(path).permissions() & (fs::perms::group_all | fs::perms::others_all),
              fs::perms::none)
        << path;
}

}  // namespace
}  // namespace met::storage
