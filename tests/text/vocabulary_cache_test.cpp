// The corpora of vocabularies that are not stored beside them: scripts/fetch_vocabularies puts these into
// .cache/vocab. Tests of absent files are skipped.
#include <map>

#include "formats/gguf.h"
#include "tests/text/tokenizer_corpus.h"
#include "text/tokenizer/gguf_vocabulary.h"

namespace met::text {
namespace {

namespace fs = std::filesystem;

fs::path cached(const std::string& name) { return test::source_dir() / ".cache/vocab" / name; }

void expect_perfect(const std::string& name, const test::CorpusCounts& counts) {
  std::printf("%-24s%s\n", name.c_str(), counts.summary().c_str());
  EXPECT_TRUE(counts.perfect()) << name;
  for (const std::string& failure : counts.failures) ADD_FAILURE() << name << " " << failure;
}

void check(const std::string& name, const Result<Tokenizer>& tokenizer, test::CorpusOptions options = {}) {
  ASSERT_TRUE(tokenizer) << tokenizer.error().field << ": " << tokenizer.error().message;
  const fs::path folder = test::shared_corpora() / "tokenizers";
  expect_perfect(
      name, test::CorpusRun(*tokenizer, options).run(test::read_records(folder / (name + ".jsonl")), folder));
}

#define MET_SKIP_WITHOUT(file)                                                 \
  if (!fs::exists(file) || !fs::exists(test::shared_corpora() / "tokenizers")) \
  GTEST_SKIP() << "no shared corpora or no " << (file).filename().string()

class JsonVocabulary : public testing::TestWithParam<const char*> {};
TEST_P(JsonVocabulary, AgreesWithTheCorpus) {
  const fs::path file = cached(std::string(GetParam()) + ".tokenizer.json");
  MET_SKIP_WITHOUT(file);
  check(GetParam(), Tokenizer::from_json(test::read_file(file)));
}
INSTANTIATE_TEST_SUITE_P(All, JsonVocabulary,
                         testing::Values("deepseek", "llama3", "llama4_base", "mistral_tekken_240718",
                                         "mistral_tekken_240911"),
                         [](const auto& p) { return std::string(p.param); });

struct GgufCase {
  const char* corpus;
  const char* file;
  test::CorpusOptions options;
};
class GgufVocabularyFile : public testing::TestWithParam<GgufCase> {};
TEST_P(GgufVocabularyFile, AgreesWithTheCorpus) {
  const fs::path path = cached(GetParam().file);
  MET_SKIP_WITHOUT(path);
  const auto file = formats::GgufFile::open(path.string());
  ASSERT_TRUE(file) << file.error().message;
  auto vocabulary = GgufVocabulary::read(*file);
  ASSERT_TRUE(vocabulary) << vocabulary.error().message;
  check(GetParam().corpus, Tokenizer::from_gguf(*vocabulary), GetParam().options);
}
INSTANTIATE_TEST_SUITE_P(
    All, GgufVocabularyFile,
    testing::Values(GgufCase{"smollm2", "smollm2.gguf", {.compare_add = false}},
                    GgufCase{"gemma3", "gemma3.gguf", {.compare_decode = false, .compare_raw = false}},
                    GgufCase{"gemma4", "ggml-vocab-gemma-4.gguf", {}},
                    GgufCase{"gpt2", "ggml-vocab-gpt-2.gguf", {.compare_raw = false}},
                    GgufCase{"llama2_spm", "ggml-vocab-llama-spm.gguf", {.compare_decode = false}}),
    [](const auto& p) { return std::string(p.param.corpus); });

// Qwen's vocabulary of a GGUF with the added tokens that Qwen 3 has; the file's own user tokens do not count.
class QwenVocabulary : public testing::TestWithParam<std::pair<const char*, const char*>> {};
TEST_P(QwenVocabulary, AgreesWithTheCorpus) {
  const fs::path path = cached(GetParam().second);
  MET_SKIP_WITHOUT(path);
  const auto file = formats::GgufFile::open(path.string());
  ASSERT_TRUE(file);
  auto v = GgufVocabulary::read(*file);
  ASSERT_TRUE(v);
  constexpr std::string_view kAdded[] = {
      "<|endoftext|>",  "<|im_start|>",   "<|im_end|>",      "<|object_ref_start|>", "<|object_ref_end|>",
      "<|box_start|>",  "<|box_end|>",    "<|quad_start|>",  "<|quad_end|>",         "<|vision_start|>",
      "<|vision_end|>", "<|vision_pad|>", "<|image_pad|>",   "<|video_pad|>",        "<tool_call>",
      "</tool_call>",   "<|fim_prefix|>", "<|fim_middle|>",  "<|fim_suffix|>",       "<|fim_pad|>",
      "<|repo_name|>",  "<|file_sep|>",   "<tool_response>", "</tool_response>",     "<think>",
      "</think>"};
  constexpr std::size_t kFirst = 151643;
  constexpr std::size_t kSpecial = 14;
  for (std::int32_t& type : v->types)
    if (type == 4) type = 1;
  for (std::size_t i = 0; i < std::size(kAdded); ++i) {
    v->tokens[kFirst + i] = kAdded[i];
    v->types[kFirst + i] = i < kSpecial ? 3 : 4;
  }
  check(GetParam().first, Tokenizer::from_gguf(*v));
}
INSTANTIATE_TEST_SUITE_P(All, QwenVocabulary,
                         testing::Values(std::pair{"qwen3", "ggml-vocab-qwen2.gguf"},
                                         std::pair{"qwen35split", "ggml-vocab-qwen35.gguf"}),
                         [](const auto& p) { return std::string(p.param.first); });

class SentencePieceModel : public testing::TestWithParam<const char*> {};
TEST_P(SentencePieceModel, AgreesWithTheCorpus) {
  const fs::path path = cached(std::string(GetParam()) + ".pieces.json");
  MET_SKIP_WITHOUT(path);
  const auto pieces = json::parse(test::read_file(path));
  ASSERT_TRUE(pieces);
  GgufVocabulary v;
  v.model = "llama";
  v.bos = 1;
  for (const json::Value& token : pieces->find("tokens")->as_array()) v.tokens.push_back(token.as_string());
  for (const json::Value& score : pieces->find("scores")->as_array())
    v.scores.push_back(static_cast<float>(score.as_number()));
  for (const json::Value& type : pieces->find("types")->as_array())
    v.types.push_back(static_cast<std::int32_t>(type.as_int()));
  check(GetParam(), Tokenizer::from_gguf(v), {.compare_decode = false});
}
INSTANTIATE_TEST_SUITE_P(All, SentencePieceModel,
                         testing::Values("mistral_spm_v1", "mistral_spm_v3", "mistral_spm_v7"),
                         [](const auto& p) { return std::string(p.param); });

// The public vectors of llama.cpp. Where its answer differs from the models' own tokenizers, theirs counts.
TEST(LlamaCppVectors, AgreeWithEveryVocabulary) {
  const fs::path records = test::shared_corpora() / "tokenizers/llamacpp_vectors.jsonl";
  if (!fs::exists(records) || !fs::exists(cached("ggml-vocab-gpt-2.gguf"))) GTEST_SKIP() << "no files";
  std::map<std::string, std::vector<json::Value>> by_vocabulary;
  for (json::Value& record : test::read_records(records)) {
    const json::Value* agrees = record.find("oracle_agrees");
    if (agrees != nullptr && !agrees->as_bool()) continue;
    const std::string name = test::string_of(record, "vocab");
    by_vocabulary[name].push_back(std::move(record));
  }
  for (const auto& [name, list] : by_vocabulary) {
    const auto file = formats::GgufFile::open(cached(name + ".gguf").string());
    ASSERT_TRUE(file) << name;
    auto v = GgufVocabulary::read(*file);
    ASSERT_TRUE(v) << name << v.error().message;
    const auto tokenizer = Tokenizer::from_gguf(*v);
    ASSERT_TRUE(tokenizer) << name << ": " << tokenizer.error().field << ": " << tokenizer.error().message;
    test::CorpusCounts counts;
    for (const json::Value& record : list) {
      const auto want = test::ids_of(*record.find("ids"));
      const auto got = tokenizer->encode(test::string_of(record, "text"));
      counts.note("encode", got == want,
                  test::string_of(record, "id") + " '" + test::string_of(record, "text").substr(0, 80) +
                      "'\n  want " + test::show(want) + "\n  got  " + test::show(got));
    }
    expect_perfect(name, counts);
  }
}

}  // namespace
}  // namespace met::text
