#include "text/tokenizer/tokenizer.h"

#include <set>

#include "tests/text/tokenizer_corpus.h"

namespace met::text {
namespace {

namespace fs = std::filesystem;

// Every stored vocabulary of a corpora folder (vocab/NAME.tokenizer.json) against NAME.jsonl.
void run_folder(const fs::path& folder) {
  std::set<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder / "vocab")) files.insert(entry.path());
  for (const fs::path& file : files) {
    const std::string name = file.filename().string().substr(0, file.filename().string().find('.'));
    SCOPED_TRACE(name);
    const auto tokenizer = Tokenizer::from_json(test::read_file(file));
    ASSERT_TRUE(tokenizer) << tokenizer.error().field << ": " << tokenizer.error().message;
    test::CorpusRun run(*tokenizer, {.compare_raw = name != "syn_added_flags"});
    const auto counts = run.run(test::read_records(folder / (name + ".jsonl")), folder);
    std::printf("%-24s%s\n", name.c_str(), counts.summary().c_str());
    EXPECT_TRUE(counts.perfect());
    for (const std::string& failure : counts.failures) ADD_FAILURE() << failure;
  }
}

TEST(Tokenizer, AgreesWithTheSharedCorpora) {
  const fs::path folder = test::shared_corpora() / "tokenizers";
  if (!fs::exists(folder)) GTEST_SKIP() << "no shared corpora beside the sources";
  run_folder(folder);
}

}  // namespace
}  // namespace met::text
