// Ids of any kind through the text machine, with stop strings and reasoning: one by one or at once they give the
// same text and stop at the same id. Bytes: format, start, length of the stops, the stops parted by commas, ids.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "tests/server/tiny_text.h"
#include "text/machine/machine.h"

namespace {

using namespace met::text;

struct Said {
  std::string text;  // kinds as letters, with their texts
  std::size_t position = 0;
  std::optional<std::size_t> stop;
  bool operator==(const Said&) const = default;
};

Said run(const Tokenizer& tokenizer, const MachineOptions& options, std::span<const TokenId> ids,
         std::size_t step) {
  auto machine = Machine::create(tokenizer, options);
  if (!machine) std::abort();
  Said out;
  std::optional<Piece::Kind> last;
  const auto add = [&](const std::vector<Piece>& pieces) {
    for (const Piece& piece : pieces) {
      if (last != piece.kind) out.text += static_cast<char>('0' + static_cast<int>(piece.kind));
      last = piece.kind;
      out.text += piece.text;
      if (piece.tokens_begin > piece.tokens_end || piece.tokens_end > ids.size()) std::abort();
    }
  };
  for (std::size_t at = 0; at < ids.size(); at += step)
    add(machine->push(ids.subspan(at, std::min(step, ids.size() - at))));
  add(machine->finish());
  out.position = machine->stop_position();
  out.stop = machine->stop_index();
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 4) return 0;
  static const auto kText = met::testing::tiny_text();
  MachineOptions options;
  options.format.reasoning = static_cast<ReasoningFormat>(data[0] % 6);
  options.format.start = static_cast<ReasoningStart>(data[1] % 3);
  options.include_stop = (data[1] & 4U) != 0;
  options.skip_special = (data[1] & 8U) != 0;
  options.min_tokens = data[1] / 16;
  std::string_view rest(reinterpret_cast<const char*>(data) + 3, size - 3);
  std::string_view stops = rest.substr(0, data[2] % 32);
  rest.remove_prefix(stops.size());
  while (!stops.empty() && options.stops.size() < StopMatcher::kStopsMax) {
    const std::string_view stop = stops.substr(0, stops.find(','));
    if (!stop.empty()) options.stops.emplace_back(stop);
    stops.remove_prefix(std::min(stops.size(), stop.size() + 1));
  }
  const std::vector<TokenId> ids = met::testing::tiny_ids(rest);
  const Said whole = run(kText->tokenizer, options, ids, ids.size() + 1);
  if (run(kText->tokenizer, options, ids, 1) != whole) std::abort();
  if (run(kText->tokenizer, options, ids, 1 + data[2] / 32) != whole) std::abort();
  return 0;
}
