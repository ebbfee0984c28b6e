#include <algorithm>
#include <future>
#include <list>
#include <map>
#include <mutex>
#include <utility>

#include "core/concat.h"
#include "grammar/engine.h"
#include "grammar/structural_tag.h"

namespace met::grammar {
namespace {

using Ids = std::vector<std::int32_t>;

/// Vocabularies that are kept: a structural tag may name any of the special tokens.
constexpr std::size_t kEnginesMax = 4;

Error at_field(Error error, const std::string& field) {
  error.message = concat(field, error.field.empty() ? "" : ": ", error.field, ": ", error.message);
  error.field = field;
  return error;
}

}  // namespace

struct Compiler::State {
  State(std::function<Vocabulary()> make, const Limits& bounds)
      : make_vocabulary(std::move(make)), limits(bounds) {}

  using Outcome = Result<Engine::Compiled>;
  struct Entry {
    std::shared_future<Outcome> outcome;
    std::size_t bytes = 0;  ///< 0: still compiling
    std::list<std::string>::iterator used;
  };

  /// Special ids whose spelling a structural tag names.
  Ids textual_ids(const json::Value& tag) const {
    Ids out;
    for (const std::int32_t id : vocabulary->special)
      if (names_token(tag, vocabulary->tokens[static_cast<std::size_t>(id)])) out.push_back(id);
    return out;
  }

  std::shared_ptr<const Engine> engine_for(const Ids& textual) {
    const std::lock_guard lock(engines_mutex);
    const auto found = std::ranges::find(engines, textual, &EngineOf::textual);
    if (found != engines.end()) return found->engine;
    if (engines.size() == kEnginesMax)
      engines.erase(engines.begin() + 1);  // the plain one, asked for first, stays
    engines.push_back({textual, std::make_shared<const Engine>(*vocabulary, textual)});
    return engines.back().engine;
  }

  Outcome compile(const Spec& spec) {
    MET_ASSIGN(const Source source, lower(spec));
    const bool is_tag = spec.kind == Kind::kStructuralTag;
    const std::shared_ptr<const Engine> engine = engine_for(is_tag ? textual_ids(spec.value) : Ids{});
    return engine->compile(source, limits);
  }

  /// The outcome for a key, made by the first that asks; the others wait for it.
  Outcome cached(const std::string& key, const Spec& spec) {
    std::promise<Outcome> promise;
    std::shared_future<Outcome> outcome;
    bool mine = false;
    {
      const std::lock_guard lock(cache_mutex);
      auto found = cache.find(key);
      mine = found == cache.end();
      if (mine) {
        by_use.push_front(key);
        found = cache.emplace(key, Entry{promise.get_future().share(), 0, by_use.begin()}).first;
      } else {
        by_use.splice(by_use.begin(), by_use, found->second.used);
      }
      outcome = found->second.outcome;
    }
    if (!mine) return outcome.get();
    promise.set_value(compile(spec));
    keep(key, outcome.get());
    return outcome.get();
  }

  void keep(const std::string& key, const Outcome& outcome) {
    const std::lock_guard lock(cache_mutex);
    Entry& entry = cache.at(key);
    entry.bytes = key.size() + sizeof(Entry) + (outcome ? outcome->bytes : outcome.error().message.size());
    cache_bytes += entry.bytes;
    for (auto place = by_use.end(); cache_bytes > limits.cache_bytes && place != by_use.begin();) {
      const auto found = cache.find(*--place);
      if (found->second.bytes == 0) continue;
      cache_bytes -= found->second.bytes;
      cache.erase(found);
      place = by_use.erase(place);
    }
  }

  std::function<Vocabulary()> make_vocabulary;
  const Limits limits;
  std::once_flag once;
  std::shared_ptr<const Vocabulary> vocabulary;

  std::mutex engines_mutex;
  struct EngineOf {
    Ids textual;
    std::shared_ptr<const Engine> engine;
  };
  std::vector<EngineOf> engines;

  std::mutex cache_mutex;  ///< guards what follows
  std::map<std::string, Entry> cache;
  std::list<std::string> by_use;  ///< the last used first
  std::size_t cache_bytes = 0;
};

Compiler::Compiler(std::function<Vocabulary()> vocabulary, const Limits& limits)
    : state_(std::make_unique<State>(std::move(vocabulary), limits)) {}

Compiler::~Compiler() = default;

Result<std::shared_ptr<const sampling::Constraint>> Compiler::compile(const Spec& spec, const Start& start,
                                                                      const Ids& more_end_ids) {
  State& s = *state_;
  std::string key = concat(static_cast<int>(spec.kind), ' ');
  json::write(spec.value, key);
  if (key.size() > s.limits.spec_bytes)
    return std::unexpected(
        at_field({ErrorCode::kUnsupported, concat("it has more than ", s.limits.spec_bytes, " bytes"), {}},
                 spec.field));
  std::call_once(s.once, [&] {
    Vocabulary vocabulary = s.make_vocabulary();
    if (vocabulary.tokens.size() > vocabulary.width) vocabulary.tokens.resize(vocabulary.width);
    const auto outside = [&](std::int32_t id) {
      return static_cast<std::size_t>(id) >= vocabulary.tokens.size();
    };
    std::erase_if(vocabulary.special, outside);
    std::erase_if(vocabulary.end_ids, outside);
    std::ranges::sort(vocabulary.special);
    s.vocabulary = std::make_shared<const Vocabulary>(std::move(vocabulary));
  });
  auto compiled = s.cached(key, spec);
  if (!compiled) return std::unexpected(at_field(std::move(compiled).error(), spec.field));
  MatcherSource source{.vocabulary = s.vocabulary,
                       .grammar = compiled->grammar,
                       .strings = compiled->strings,
                       .start = start,
                       .more_end_ids = more_end_ids,
                       .limits = s.limits};
  std::erase_if(source.more_end_ids, [&](std::int32_t id) {
    return id < 0 || static_cast<std::size_t>(id) >= s.vocabulary->width;
  });
  std::ranges::sort(source.more_end_ids);
  return make_constraint(std::move(source));
}

}  // namespace met::grammar
