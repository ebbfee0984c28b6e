#include "config/settings.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "config/settings_file.h"
#include "core/choices.h"
#include "core/concat.h"

namespace met::config {
namespace {

template <class... Ts>
struct Overloaded : Ts... {
  using Ts::operator()...;
};

std::string flag(std::string_view name) { return "--" + std::string(name); }

const Setting* find(std::string_view name) {
  for (const Setting& row : settings_table())
    if (row.name == name || (!row.alias.empty() && row.alias == name)) return &row;
  return nullptr;
}

std::size_t index_of(const Setting& row) { return static_cast<std::size_t>(&row - settings_table().data()); }

std::string number_text(double v) {
  if (v == std::floor(v) && std::abs(v) < 1e15) return std::to_string(static_cast<std::int64_t>(v));
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, v);
  return {text, end.ptr};
}

std::string range_text(const Setting& row) {
  const bool low = std::isfinite(row.min);
  const bool high = std::isfinite(row.max);
  if (low && high) return number_text(row.min) + " to " + number_text(row.max);
  if (low) return "at least " + number_text(row.min);
  return high ? "at most " + number_text(row.max) : "a number";
}

template <class T>
Result<T> read_number(const Setting& row, std::string_view value) {
  T v{};
  const auto [end, code] = std::from_chars(value.data(), value.data() + value.size(), v);
  const auto as_double = static_cast<double>(v);
  if (code != std::errc{} || end != value.data() + value.size() || !std::isfinite(as_double) ||
      as_double < row.min || as_double > row.max)
    return invalid(flag(row.name),
                   concat("'", value, "' is not ", std::is_integral_v<T> ? "an integer" : "a number", " ",
                          range_text(row)));
  return v;
}

/// "*", or scheme://host with an optional port and nothing behind it: what a browser sends as Origin.
bool is_origin(std::string_view value) {
  if (value == "*" || value == "null") return true;
  const std::size_t scheme = value.find("://");
  if (scheme == std::string_view::npos || scheme == 0) return false;
  const std::string_view host = value.substr(scheme + 3);
  return !host.empty() && host.find_first_of("/?#@ ") == std::string_view::npos && host.front() != ':';
}

Result<void> assign(Settings& s, const Setting& row, std::string_view value) {
  return std::visit(Overloaded{
                        [&](bool Settings::* slot) -> Result<void> {
                          if (value != "true" && value != "false")
                            return invalid(flag(row.name), concat("'", value, "' is neither true nor false"));
                          s.*slot = value == "true";
                          return {};
                        },
                        [&](std::string Settings::* slot) -> Result<void> {
                          if (!row.choices.empty() && !is_choice(row.choices, value))
                            return invalid(flag(row.name), concat("'", value, "' is none of ", row.choices));
                          s.*slot = value;
                          return {};
                        },
                        [&](std::vector<std::string> Settings::* slot) -> Result<void> {
                          if (value.empty()) return invalid(flag(row.name), "the value is empty");
                          if (row.name == "cors-origin" && !is_origin(value))
                            return invalid(flag(row.name),
                                           concat("'", value, "' is neither `*` nor an origin such as ",
                                                  "https://example.org:8080"));
                          (s.*slot).emplace_back(value);
                          return {};
                        },
                        [&]<class T>(T Settings::* slot) -> Result<void> {
                          MET_ASSIGN(s.*slot, read_number<T>(row, value));
                          return {};
                        },
                        [&]<class T>(std::optional<T> Settings::* slot) -> Result<void> {
                          if (value == "auto") {
                            (s.*slot).reset();
                            return {};
                          }
                          MET_ASSIGN(s.*slot, read_number<T>(row, value));
                          return {};
                        },
                    },
                    row.slot);
}

/// Sets a value that no stronger origin has set. A list takes all values of its strongest origin.
Result<void> put(Settings& s, const Setting& row, std::string_view value, Origin origin) {
  s.origin.resize(settings_table().size());
  Origin& have = s.origin[index_of(row)];
  if (have > origin) return {};
  const bool list = std::holds_alternative<std::vector<std::string> Settings::*>(row.slot);
  if (list && have < origin) (s.*std::get<std::vector<std::string> Settings::*>(row.slot)).clear();
  MET_TRY(assign(s, row, value));
  have = origin;
  return {};
}

json::Value value_of(const Settings& s, const Setting& row) {
  return std::visit(Overloaded{
                        [&](std::vector<std::string> Settings::* slot) -> json::Value {
                          if (row.secret) return json::Value((s.*slot).size());
                          json::Array out;
                          for (const std::string& v : s.*slot) out.emplace_back(v);
                          return out;
                        },
                        [&]<class T>(std::optional<T> Settings::* slot) -> json::Value {
                          return s.*slot ? json::Value(*(s.*slot)) : json::Value("auto");
                        },
                        [&](auto slot) -> json::Value { return json::Value(s.*slot); },
                    },
                    row.slot);
}

std::string type_of(const Setting& row) {
  if (!row.choices.empty()) return std::string(row.choices);
  return std::visit(Overloaded{
                        [](bool Settings::*) { return "switch"; },
                        [](std::int64_t Settings::*) { return "integer"; },
                        [](double Settings::*) { return "number"; },
                        [](std::string Settings::*) { return "text"; },
                        [](std::optional<std::int64_t> Settings::*) { return "integer or auto"; },
                        [](std::optional<double> Settings::*) { return "number or auto"; },
                        [](std::vector<std::string> Settings::*) { return "text, repeatable"; },
                    },
                    row.slot);
}

std::string default_text(const Setting& row) {
  static const Settings kDefaults;
  const json::Value v = value_of(kDefaults, row);
  if (row.secret || v.is_array()) return "none";
  if (v.is_string()) return v.as_string();
  if (v.is_bool()) return v.as_bool() ? "on" : "off";
  return number_text(v.as_number());
}

/// The named setting nearest to a mistyped one, or nothing.
std::string_view nearest(std::string_view name) {
  std::string_view best;
  std::size_t best_distance = 4;
  for (const Setting& row : settings_table()) {
    std::vector<std::size_t> line(row.name.size() + 1);
    for (std::size_t j = 0; j < line.size(); ++j) line[j] = j;
    for (std::size_t i = 1; i <= name.size(); ++i) {
      std::size_t corner = line[0];
      line[0] = i;
      for (std::size_t j = 1; j < line.size(); ++j) {
        const std::size_t replace = corner + (name[i - 1] == row.name[j - 1] ? 0 : 1);
        corner = line[j];
        line[j] = std::min({line[j] + 1, line[j - 1] + 1, replace});
      }
    }
    if (line.back() < best_distance) best = row.name, best_distance = line.back();
  }
  return best;
}

Error unknown(std::string_view name) {
  const std::string_view guess = nearest(name);
  return {ErrorCode::kInvalidArgument,
          guess.empty() ? "there is no such flag; --help lists them"
                        : concat("there is no such flag; did you mean --", guess),
          flag(name)};
}

void read_flags(Settings& s, std::span<const std::string> arguments, std::vector<Error>& errors) {
  const auto check = [&](Result<void> r) {
    if (!r) errors.push_back(std::move(r).error());
  };
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string_view word = arguments[i];
    if (!word.starts_with("--") || word.size() == 2) {
      if (word.starts_with("-") && word.size() > 1)
        errors.push_back({ErrorCode::kInvalidArgument, "flags begin with two dashes", std::string(word)});
      else if (!s.model.empty())
        errors.push_back({ErrorCode::kInvalidArgument,
                          concat("a second model: '", word, "' after '", s.model, "'"), "MODEL"});
      else
        s.model = word;
      continue;
    }
    const std::size_t equals = word.find('=');
    const std::string_view flag_name = word.substr(2, equals == std::string_view::npos ? equals : equals - 2);
    const Setting* row = find(flag_name);
    if (row == nullptr) {
      errors.push_back(unknown(flag_name));
      continue;
    }
    if (equals != std::string_view::npos) {
      check(put(s, *row, word.substr(equals + 1), Origin::kFlag));
    } else if (std::holds_alternative<bool Settings::*>(row->slot)) {
      check(put(s, *row, "true", Origin::kFlag));
    } else if (i + 1 == arguments.size()) {
      errors.push_back({ErrorCode::kInvalidArgument, "a value is missing", flag(row->name)});
    } else {
      check(put(s, *row, arguments[++i], Origin::kFlag));
    }
  }
}

void read_file(Settings& s, std::vector<Error>& errors) {
  const auto entries = read_settings_file(s.config_file);
  if (!entries) {
    errors.push_back(entries.error());
    return;
  }
  for (const auto& [key, value] : *entries) {
    if (key == "model") {
      if (s.model.empty()) s.model = value;
      continue;
    }
    const Setting* row = find(key);
    Result<void> done =
        row != nullptr ? put(s, *row, value, Origin::kFile) : Result<void>(std::unexpected(unknown(key)));
    if (done) continue;
    done.error().message += " (in " + s.config_file + ")";
    errors.push_back(done.error());
  }
}

void read_environment(Settings& s, const EnvironmentReader& environment, std::vector<Error>& errors) {
  if (!environment) return;
  for (const Setting& row : settings_table()) {
    if (row.environment.empty()) continue;
    std::optional<std::string> value = environment(row.environment);
    if (!value) continue;
    const bool is_switch = std::holds_alternative<bool Settings::*>(row.slot);
    if (is_switch || row.choices == "auto|on|off") {  // P5: 1 or true in any case is on, any other value off
      std::transform(value->begin(), value->end(), value->begin(),
                     [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
      const bool on = row.name.starts_with("no-") ? *value == "0" || *value == "false"
                                                  : *value == "1" || *value == "true";
      value = is_switch ? (on ? "true" : "false") : (on ? "on" : "off");
    }
    const Result<void> done = put(s, row, *value, Origin::kEnvironment);
    if (!done) errors.push_back({done.error().code, done.error().message, std::string(row.environment)});
  }
}

}  // namespace

std::string_view name(Origin origin) {
  constexpr std::string_view kNames[] = {"default", "hardware", "environment", "file", "flag"};
  return kNames[static_cast<std::size_t>(origin)];
}

std::expected<Settings, std::vector<Error>> read_settings(std::span<const std::string> arguments,
                                                          const EnvironmentReader& environment) {
  Settings s;
  s.origin.resize(settings_table().size());
  std::vector<Error> errors;
  read_flags(s, arguments, errors);
  if (!s.config_file.empty()) read_file(s, errors);
  read_environment(s, environment, errors);
  if (!errors.empty()) return std::unexpected(std::move(errors));
  return s;
}

Result<void> set_setting(Settings& settings, std::string_view setting_name, std::string_view value,
                         Origin origin) {
  const Setting* row = find(setting_name);
  if (row == nullptr) return std::unexpected(unknown(setting_name));
  return put(settings, *row, value, origin);
}

Origin origin_of(const Settings& settings, std::string_view setting_name) {
  const Setting* row = find(setting_name);
  MET_CHECK(row != nullptr, std::string(setting_name));
  const std::size_t i = index_of(*row);
  return i < settings.origin.size() ? settings.origin[i] : Origin::kDefault;
}

json::Value describe_settings(const Settings& settings) {
  json::Array rows;
  for (const Setting& row : settings_table()) {
    const Origin origin = origin_of(settings, row.name);
    json::Object entry;
    entry.append("name", row.name);
    entry.append("value", value_of(settings, row));
    entry.append("default", default_text(row));
    entry.append("origin", name(origin));
    entry.append("type", type_of(row));
    rows.emplace_back(std::move(entry));
  }
  return rows;
}

std::string settings_help(std::string_view usage) {
  std::string out(usage);
  out +=
      "\n\nA switch is set by its name alone; others as --name VALUE or --name=VALUE. All of them are keys "
      "of --config's TOML file.\n\n";
  for (const Setting& row : settings_table()) {
    const bool is_switch = std::holds_alternative<bool Settings::*>(row.slot);
    std::string head = flag(row.name);
    if (!is_switch) head += " " + (row.choices.empty() ? std::string("VALUE") : std::string(row.choices));
    out += concat("  ", head, "\n      ", row.help);
    if (!is_switch && default_text(row) != "none" && !default_text(row).empty())
      out += concat(" [", default_text(row), "]");
    out += '\n';
  }
  return out;
}

std::string settings_markdown() {
  std::string out =
      "# Settings\n\nGenerated from the table in `src/config/settings_table.cpp` "
      "(`tests/config/settings_test.cpp` holds them equal).\n"
      "Command line beats `--config` file beats environment beats the hardware's defaults. `met serve "
      "--print-config` prints the values\n"
      "and where each came from.\n\n| flag and TOML key | type | default | meaning |\n|---|---|---|---|\n";
  for (const Setting& row : settings_table()) {
    std::string type = type_of(row);
    for (std::size_t at = 0; (at = type.find('|', at)) != std::string::npos; at += 2)
      type.replace(at, 1, "\\|");
    if (std::isfinite(row.min) || std::isfinite(row.max)) type += ", " + range_text(row);
    std::string meaning(row.help);
    if (!row.alias.empty()) meaning += concat("; also `--", row.alias, "`");
    if (!row.environment.empty()) meaning += concat("; environment: `", row.environment, "`");
    out += concat("| `--", row.name, "` | ", type, " | ", default_text(row).empty() ? "–" : default_text(row),
                  " | ", meaning, " |\n");
  }
  return out;
}

}  // namespace met::config
