#include "hub/model_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>

namespace met::hub {
namespace {

namespace fs = std::filesystem;
using config::Environment;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ModelSourceTest : public ::testing::Test {
 protected:
  ModelSourceTest() : root_(fs::path(::testing::TempDir()) / ("met_hub_" + std::to_string(getpid()))) {
    fs::remove_all(root_);
    fs::create_directories(root_);
  }
  ~ModelSourceTest() override { fs::remove_all(root_); }

  fs::path put(const fs::path& relative, const std::string& text = "x") {
    const fs::path path = root_ / relative;
    fs::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }
  void put_model(const fs::path& directory) {
    put(directory / "config.json");
    put(directory / "model.safetensors");
  }
  void age(const fs::path& relative, int hours) {
    fs::last_write_time(root_ / relative, fs::file_time_type::clock::now() - std::chrono::hours(hours));
  }
  std::string at(const std::string& relative) const { return (root_ / relative).string(); }

  fs::path root_;
  Environment empty_{{}};
};

TEST_F(ModelSourceTest, PathsAreToldApart) {
  put_model("dir/tiny");
  put("one/a.GGUF");
  put("one/readme.md");
  put("magic/model.bin", "GGUF....");
  put("sharded/config.json");
  put("sharded/model.safetensors.index.json");
  put("both/config.json");
  put("both/m.gguf");
  const struct {
    const char* spec;
    SourceKind kind;
    const char* path;
    const char* name;
  } kCases[] = {
      {"dir/tiny", SourceKind::kSafetensors, "dir/tiny", "tiny"},
      {"dir/tiny/", SourceKind::kSafetensors, "dir/tiny/", "tiny"},
      {"one", SourceKind::kGguf, "one/a.GGUF", "a"},
      {"one/a.GGUF", SourceKind::kGguf, "one/a.GGUF", "a"},
      {"magic/model.bin", SourceKind::kGguf, "magic/model.bin", "model.bin"},
      {"sharded", SourceKind::kSafetensors, "sharded", "sharded"},
      {"both", SourceKind::kGguf, "both/m.gguf", "m"},
  };
  for (const auto& c : kCases) {
    const auto source = resolve_model(at(c.spec), "", "", empty_);
    ASSERT_TRUE(source.has_value()) << source.error().message;
    EXPECT_EQ(source->kind, c.kind) << c.spec;
    EXPECT_EQ(source->path, at(c.path));
    EXPECT_EQ(source->name, c.name);
  }
}

TEST_F(ModelSourceTest, DirectoriesThatHoldNoModelSayWhatTheyHold) {
  fs::create_directories(root_ / "none");
  put("two/a.gguf");
  put("two/b.gguf");
  put("weights/model.safetensors");
  put("text/notes.txt", "hello");
  const std::pair<const char*, const char*> kCases[] = {
      {"none", "holds no model"},
      {"two", "2 .gguf files, name one of them: a.gguf, b.gguf"},
      {"weights", "has safetensors, but no config.json"},
      {"text/notes.txt", "is no GGUF file"},
  };
  for (const auto& [path, message] : kCases) {
    const auto source = resolve_model(at(path), "", "", empty_);
    ASSERT_FALSE(source.has_value()) << path;
    EXPECT_THAT(source.error().message, HasSubstr(message));
    EXPECT_EQ(source.error().field, "model");
  }
}

TEST_F(ModelSourceTest, ConfigAloneIsAModelWithoutWeights) {
  put("config/config.json");
  const auto source = resolve_model(at("config"), "", "", empty_);
  ASSERT_TRUE(source.has_value()) << source.error().message;
  EXPECT_EQ(source->kind, SourceKind::kConfigOnly);
}

TEST_F(ModelSourceTest, FromPathSkipsTheSearch) {
  put_model("m");
  const auto source = resolve_model("org/name", "", at("m"), empty_);
  ASSERT_TRUE(source.has_value()) << source.error().message;
  EXPECT_EQ(source->path, at("m"));
  EXPECT_EQ(source->name, "org/name");
  const auto absent = resolve_model("org/name", "", at("absent"), empty_);
  EXPECT_EQ(absent.error().field, "model_from_path");
  EXPECT_EQ(absent.error().code, ErrorCode::kNotFound);
}

TEST_F(ModelSourceTest, CachesAreSearchedInOrder) {
  const Environment all({{"HF_HUB_CACHE", "/a"}, {"HF_HOME", "/b"}, {"HOME", "/h"}});
  EXPECT_THAT(cache_directories("/c", all), ElementsAre("/c", "/a", "/b/hub", "/h/.cache/huggingface/hub"));
  EXPECT_THAT(cache_directories("", Environment({{"XDG_CACHE_HOME", "/x"}, {"HOME", "/h"}})),
              ElementsAre("/x/huggingface/hub"));
  EXPECT_TRUE(cache_directories("", empty_).empty());
  const std::string folder = "models--org--Na.me_1/snapshots/0123";
  for (const char* cache : {"home/.cache/huggingface/hub/", "hf/hub/", "hub/", "flag/"}) {
    put_model(cache + folder);
    const Environment environment({{"HF_HUB_CACHE", at("hub")}, {"HF_HOME", at("hf")}, {"HOME", at("home")}});
    const auto source = resolve_model("org/Na.me_1", at("flag"), "", environment);
    ASSERT_TRUE(source.has_value()) << source.error().message;
    EXPECT_EQ(source->path, at(cache + folder));
    EXPECT_EQ(source->name, "org/Na.me_1");
  }
}

TEST_F(ModelSourceTest, MainRevisionFirstThenTheNewestThatIsWhole) {
  put_model("c/models--gpt2/snapshots/old");
  put_model("c/models--gpt2/snapshots/new");
  put("c/models--gpt2/snapshots/broken/config.json");
  age("c/models--gpt2/snapshots/old", 5);
  age("c/models--gpt2/snapshots/new", 2);
  const auto path = [&] { return resolve_model("gpt2", at("c"), "", empty_)->path; };
  EXPECT_EQ(path(), at("c/models--gpt2/snapshots/new"));
  put("c/models--gpt2/refs/main", "old\n");
  EXPECT_EQ(path(), at("c/models--gpt2/snapshots/old"));
  put("c/models--gpt2/refs/main", "broken");
  EXPECT_EQ(path(), at("c/models--gpt2/snapshots/new"));
  put("c/models--gpt2/refs/main", "../../../outside");
  EXPECT_EQ(path(), at("c/models--gpt2/snapshots/new"));
}

TEST_F(ModelSourceTest, WhatIsNotFoundListsEveryPlace) {
  put("hub/models--org--part/snapshots/1/config.json");
  const Environment environment({{"HF_HUB_CACHE", at("hub")}, {"HOME", "/nonexistent"}});
  const auto source = resolve_model("org/part", at("flag"), "", environment);
  ASSERT_FALSE(source.has_value());
  EXPECT_EQ(source.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(source.error().message,
              AllOf(HasSubstr("never downloads"), HasSubstr(at("flag/models--org--part") + " (absent)"),
                    HasSubstr("config.json without weights"),
                    HasSubstr("/nonexistent/.cache/huggingface/hub/models--org--part (absent)")));
  for (const char* spec :
       {"", "../x", "a/b/c", "/no/such", "org/..", "a b", "x.gguf", "org/na--me", "-flag"}) {
    const auto refused = resolve_model(spec, at("flag"), "", environment);
    ASSERT_FALSE(refused.has_value()) << spec;
    EXPECT_EQ(refused.error().field, "model");
    EXPECT_THAT(refused.error().message, ::testing::Not(HasSubstr("looked at"))) << spec;
  }
}

}  // namespace
}  // namespace met::hub
