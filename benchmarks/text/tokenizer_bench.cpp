// Load time of a vocabulary and encoding speed over text files.
//   met_bench_tokenizer VOCABULARY FILE...     VOCABULARY: a tokenizer.json or a GGUF file
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "formats/gguf.h"
#include "text/tokenizer/gguf_vocabulary.h"
#include "text/tokenizer/stream_decoder.h"
#include "text/tokenizer/tokenizer.h"

namespace {

using namespace met;

// CPU time of this thread: the machine may be busy with other work.
double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return std::move(text).str();
}

Result<text::Tokenizer> load(const std::string& path) {
  if (path.ends_with(".json")) return text::Tokenizer::from_json(read_file(path));
  MET_ASSIGN(const formats::GgufFile file, formats::GgufFile::open(path));
  MET_ASSIGN(const text::GgufVocabulary vocabulary, text::GgufVocabulary::read(file));
  return text::Tokenizer::from_gguf(vocabulary);
}

// Median and extremes of the seconds that `f` takes.
template <class F>
std::vector<double> seconds(int runs, const F& f) {
  std::vector<double> all;
  for (int i = 0; i < runs; ++i) {
    const double begin = cpu_seconds();
    f();
    all.push_back(cpu_seconds() - begin);
  }
  std::ranges::sort(all);
  return all;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return std::fprintf(stderr, "usage: met_bench_tokenizer VOCABULARY FILE...\n"), 2;
  const auto loads = seconds(5, [&] { (void)load(argv[1]); });
  const auto tokenizer = load(argv[1]);
  if (!tokenizer) return std::fprintf(stderr, "%s\n", tokenizer.error().message.c_str()), 1;
  std::printf("load %zu tokens: %.1f ms (%.1f to %.1f)\n", tokenizer->vocabulary_size(), loads[2] * 1e3,
              loads[0] * 1e3, loads[4] * 1e3);
  for (int i = 2; i < argc; ++i) {
    const std::string text = read_file(argv[i]);
    const auto ids = tokenizer->encode(text);
    const auto encode = seconds(9, [&] { (void)tokenizer->encode(text); });
    const auto decode = seconds(9, [&] {
      text::StreamDecoder decoder(*tokenizer);
      for (const text::TokenId id : ids) (void)decoder.push(id);
    });
    const double mb = static_cast<double>(text.size()) / 1e6;
    std::printf(
        "%-28s %7zu bytes %6zu ids  encode %6.1f MB/s (%.1f to %.1f)  %5.2f Mtok/s  stream %5.1f Mtok/s\n",
        std::string(argv[i]).substr(std::string(argv[i]).rfind('/') + 1).c_str(), text.size(), ids.size(),
        mb / encode[4], mb / encode[8], mb / encode[0], static_cast<double>(ids.size()) / encode[4] / 1e6,
        static_cast<double>(ids.size()) / decode[4] / 1e6);
  }
  return 0;
}
