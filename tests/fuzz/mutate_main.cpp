// A stand-in for libFuzzer where the compiler has none: replays corpus files, then mutates them for a while.
//
//   <fuzzer> [-max_total_time=SECONDS] [-seed=N] [-artifact=FILE] [file or directory]...
//
// Deterministic for a seed and a number of rounds. Before each run the input is written to FILE (where
// given), so that a crash leaves its cause behind. Rounds that find nothing new are not kept: there is no
// coverage feedback.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <string_view>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

namespace fs = std::filesystem;

struct Options {
  double seconds = 1;
  std::uint64_t seed = 1;
  std::string artifact;
  std::vector<fs::path> inputs;
};

constexpr std::size_t kInputBytesMax = 1 << 20;

Options read_options(int argc, char** argv) {
  Options out;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    const auto value = [&](std::string_view flag) { return std::string(argument.substr(flag.size())); };
    if (argument.starts_with("-max_total_time=")) {
      out.seconds = std::strtod(value("-max_total_time=").c_str(), nullptr);
    } else if (argument.starts_with("-seed=")) {
      out.seed = std::strtoull(value("-seed=").c_str(), nullptr, 10);
    } else if (argument.starts_with("-artifact=")) {
      out.artifact = value("-artifact=");
    } else if (!argument.starts_with("-")) {
      out.inputs.emplace_back(argument);
    }
  }
  return out;
}

std::vector<std::string> read_corpus(const Options& options) {
  std::vector<fs::path> files;
  for (const fs::path& path : options.inputs) {
    if (fs::is_directory(path)) {
      for (const auto& entry : fs::recursive_directory_iterator(path))
        if (entry.is_regular_file()) files.push_back(entry.path());
    } else if (fs::exists(path)) {
      files.push_back(path);
    }
  }
  std::sort(files.begin(), files.end());
  std::vector<std::string> corpus{std::string()};
  for (const fs::path& file : files) {
    std::ifstream stream(file, std::ios::binary);
    corpus.emplace_back(std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>());
  }
  return corpus;
}

class Mutator {
 public:
  explicit Mutator(std::uint64_t seed) : random_(seed) {}

  std::string mutate(const std::vector<std::string>& corpus) {
    std::string text = corpus[below(corpus.size())];
    for (std::size_t steps = 1 + below(6); steps > 0; --steps) step(text, corpus);
    if (text.size() > kInputBytesMax) text.resize(kInputBytesMax);
    return text;
  }

 private:
  std::size_t below(std::size_t n) { return n == 0 ? 0 : random_() % n; }

  void step(std::string& text, const std::vector<std::string>& corpus) {
    const std::size_t at = below(text.size() + 1);
    switch (below(9)) {
      case 0:  // a bit
        if (at < text.size()) text[at] = static_cast<char>(text[at] ^ (1 << below(8)));
        break;
      case 1:  // a byte
        if (at < text.size()) text[at] = static_cast<char>(below(256));
        break;
      case 2:  // an integer of 1, 2, 4 or 8 bytes with an awkward value
        put_integer(text, at);
        break;
      case 3:
        text.insert(at, 1 + below(8), static_cast<char>(below(256)));
        break;
      case 4:
        text.erase(at, 1 + below(16));
        break;
      case 5:
        text.resize(at);
        break;
      case 6:  // a piece again
        text.insert(at, text.substr(below(text.size() + 1), 1 + below(64)));
        break;
      case 7: {  // a piece of another file
        const std::string& other = corpus[below(corpus.size())];
        text.insert(at, other.substr(below(other.size() + 1), 1 + below(128)));
        break;
      }
      default:
        put_number_text(text, at);
        break;
    }
  }

  void put_integer(std::string& text, std::size_t at) {
    const std::uint64_t kValues[] = {0,           1,
                                     2,           7,
                                     8,           9,
                                     13,          31,
                                     32,          33,
                                     64,          255,
                                     256,         512,
                                     1024,        65535,
                                     65536,       0x7FFFFFFF,
                                     0x80000000,  0xFFFFFFFF,
                                     1ULL << 32U, (1ULL << 42U) + 1,
                                     1ULL << 60U, 1ULL << 61U,
                                     1ULL << 62U, (1ULL << 63U) - 1,
                                     1ULL << 63U, ~0ULL - 31,
                                     ~0ULL};
    const std::uint64_t value = kValues[below(std::size(kValues))];
    const std::size_t size = std::size_t{1} << below(4);
    if (at + size <= text.size()) std::memcpy(text.data() + at, &value, size);
  }

  void put_number_text(std::string& text, std::size_t at) {
    const char* const kTexts[] = {"0",
                                  "-1",
                                  "1e309",
                                  "1.5",
                                  "9223372036854775807",
                                  "99999999999999999999",
                                  "4398046511105",
                                  "null",
                                  "true",
                                  "\"\"",
                                  "[]",
                                  "{}",
                                  "[[[[",
                                  "{\"a\":",
                                  "\\u0000"};
    text.insert(at, kTexts[below(std::size(kTexts))]);
  }

  std::mt19937_64 random_;
};

void run(const std::string& text, const Options& options) {
  if (!options.artifact.empty()) std::ofstream(options.artifact, std::ios::binary) << text;
  // A copy of exactly this size, so that a sanitizer sees the first byte past the end.
  const std::vector<std::uint8_t> data(text.begin(), text.end());
  LLVMFuzzerTestOneInput(data.data(), data.size());
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = read_options(argc, argv);
  const std::vector<std::string> corpus = read_corpus(options);
  for (const std::string& text : corpus) run(text, options);
  Mutator mutator(options.seed);
  const auto begin = std::chrono::steady_clock::now();
  const auto spent = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  std::uint64_t rounds = 0;
  while (spent() < options.seconds) {
    run(mutator.mutate(corpus), options);
    ++rounds;
  }
  std::printf("%zu corpus files, %llu mutations in %.1f s\n", corpus.size() - 1,
              static_cast<unsigned long long>(rounds), spent());
  return 0;
}
