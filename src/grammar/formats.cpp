#include "grammar/formats.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

namespace met::grammar {
namespace {

// RFC 3339 dates with their months' days; 29 February in leap years alone.
const std::string kYear = "(000[1-9]|00[1-9]\\d|0[1-9]\\d\\d|[1-9]\\d\\d\\d)";
const std::string kLeapYear = "(\\d\\d(0[48]|[2468][048]|[13579][26])|(0[48]|[2468][048]|[13579][26])00)";
const std::string kDate = "(" + kYear +
                          "-((0[13578]|1[02])-(0[1-9]|[12]\\d|3[01])|(0[469]|11)-(0[1-9]|[12]\\d|30)|" +
                          "02-(0[1-9]|1\\d|2[0-8]))|" + kLeapYear + "-02-29)";
const std::string kTime = "([01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(\\.\\d{1,6})?(Z|[+-]([01]\\d|2[0-3]):[0-5]\\d)";

const std::string kByte = "(25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)";
const std::string kIpv4 = "(" + kByte + "\\.){3}" + kByte;
const std::string kGroup = "[0-9a-fA-F]{1,4}";

/// RFC 4291 without embedded IPv4: eight groups, or fewer around one "::".
std::string ipv6() {
  std::string out = "(" + kGroup + ":){7}" + kGroup;
  for (int before = 0; before <= 7; ++before) {
    const int after = 7 - before;  // at most; "::" stands for one group at least
    out += "|";
    if (before > 0) out += "(" + kGroup + ":){" + std::to_string(before) + "}";
    out += before > 0 ? ":" : "::";
    if (after == 1) out += "(" + kGroup + ")?";
    if (after > 1) out += "(" + kGroup + "(:" + kGroup + "){0," + std::to_string(after - 1) + "})?";
  }
  return "(" + out + ")";
}

const std::string kLabel = "[a-zA-Z0-9]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?";
const std::string kHost = kLabel + "(\\." + kLabel + "){0,3}";
const std::string kAtom = "[a-zA-Z0-9!#$%&'*+/=?^_`{|}~-]{1,64}";
const std::string kEscapedByte = "%[0-9a-fA-F]{2}";
const std::string kPathChar = "([a-zA-Z0-9._~!$&'()*+,;=:@-]|" + kEscapedByte + ")";
const std::string kQuery = "([a-zA-Z0-9._~!$&'()*+,;=:@/?-]|" + kEscapedByte + ")*";
const std::string kUri = "[a-zA-Z][a-zA-Z0-9+.-]*:(//" + kHost + "(:\\d{1,4})?(/" + kPathChar + "*)*|" +
                         kPathChar + "+(/" + kPathChar + "*)*)(\\?" + kQuery + ")?(#" + kQuery + ")?";

/// RFC 3339, appendix A.
const std::string kDuration =
    "P(\\d{1,9}W|(\\d{1,9}Y(\\d{1,9}M(\\d{1,9}D)?)?|\\d{1,9}M(\\d{1,9}D)?|\\d{1,9}D)(T(\\d{1,9}H(\\d{1,9}M("
    "\\d{1,9}S)?)?|"
    "\\d{1,9}M(\\d{1,9}S)?|\\d{1,9}S))?|T(\\d{1,9}H(\\d{1,9}M(\\d{1,9}S)?)?|\\d{1,9}M(\\d{1,9}S)?|\\d{1,9}S)"
    ")";
const std::string kPointer = "(/([^~/]|~[01])*)*";

using Entry = std::pair<std::string_view, std::string>;

const std::array<Entry, 11>& table() {
  static const std::array<Entry, 11> entries = {{
      {"date", "^" + kDate + "$"},
      {"time", "^" + kTime + "$"},
      {"date-time", "^" + kDate + "T" + kTime + "$"},
      {"duration", "^" + kDuration + "$"},
      {"email", "^" + kAtom + "(\\." + kAtom + "){0,3}@" + kHost + "$"},
      {"hostname", "^" + kHost + "$"},
      {"ipv4", "^" + kIpv4 + "$"},
      {"ipv6", "^" + ipv6() + "$"},
      {"uuid", "^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$"},
      {"uri", "^" + kUri + "$"},
      {"json-pointer", "^" + kPointer + "$"},
  }};
  return entries;
}

}  // namespace

std::optional<std::string_view> format_pattern(std::string_view name) {
  const auto found = std::ranges::find(table(), name, &Entry::first);
  if (found == table().end()) return std::nullopt;
  return found->second;
}

bool is_standard_format(std::string_view name) {
  constexpr std::array<std::string_view, 8> kOthers = {
      "idn-email",     "idn-hostname", "uri-reference",         "iri",
      "iri-reference", "uri-template", "relative-json-pointer", "regex"};
  return std::ranges::find(kOthers, name) != kOthers.end();
}

}  // namespace met::grammar
