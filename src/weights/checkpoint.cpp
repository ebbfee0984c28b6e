#include "weights/checkpoint.h"

#include <algorithm>
#include <deque>
#include <numeric>
#include <optional>
#include <unordered_set>

#include "formats/mapped_file.h"
#include "formats/safetensors.h"

namespace met::weights {

using formats::TensorEntry;

struct Checkpoint::Contents {
  std::optional<formats::GgufFile> gguf;
  std::optional<formats::SafetensorsDirectory> shards;
  std::deque<std::string> renamed;  // owns names that differ from the file's
  std::vector<TensorView> tensors;  // in the files' order
  std::vector<std::string_view> names;
  std::vector<std::uint32_t> order;  // by name
  std::uint64_t bytes = 0;

  Result<> add(std::span<const TensorEntry> entries, std::span<const std::byte> file);
  Result<> finish();
};

namespace {

std::string text_of(std::span<const std::int64_t> shape) {
  std::string out = "[";
  for (const std::int64_t d : shape) out += (out.size() > 1 ? ", " : "") + std::to_string(d);
  return out + "]";
}

struct Prefix {
  std::string_view stored;
  std::string_view known;
};
constexpr Prefix kPrefixes[] = {
    {"language_model.model.", "model."},
    {"language_model.lm_head.", "lm_head."},
    {"model.language_model.", "model."},
};

std::optional<std::string> known_name(std::string_view stored) {
  for (const Prefix& prefix : kPrefixes)
    if (stored.starts_with(prefix.stored))
      return std::string(prefix.known) + std::string(stored.substr(prefix.stored.size()));
  return std::nullopt;
}

Result<> refuse_types(std::span<const TensorEntry> entries) {
  const TensorEntry* first = nullptr;
  std::size_t count = 0;
  for (const TensorEntry& entry : entries) {
    if (entry.dtype) continue;
    if (first == nullptr) first = &entry;
    ++count;
  }
  if (first == nullptr) return {};
  return unsupported(first->name,
                     "tensor " + formats::shown(first->name) +
                         (count > 1 ? " (and " + std::to_string(count - 1) + " more)" : std::string()) +
                         " has the type " + std::string(first->type_name) +
                         ", which met does not compute with");
}

}  // namespace

Result<> Checkpoint::Contents::add(std::span<const TensorEntry> entries, std::span<const std::byte> file) {
  MET_TRY(refuse_types(entries));
  for (const TensorEntry& entry : entries) {
    std::string_view name = entry.name;
    if (!gguf)
      if (auto known = known_name(name)) name = renamed.emplace_back(std::move(*known));
    tensors.push_back({name, *entry.dtype, entry.shape, file.subspan(entry.offset, entry.bytes)});
    bytes += entry.bytes;
  }
  return {};
}

Result<> Checkpoint::Contents::finish() {
  for (const TensorView& tensor : tensors) names.push_back(tensor.name);
  order.resize(tensors.size());
  std::iota(order.begin(), order.end(), 0U);
  const auto name_of = [&](std::uint32_t i) { return names[i]; };
  std::ranges::sort(order, {}, name_of);
  const auto twice = std::ranges::adjacent_find(order, {}, name_of);
  if (twice == order.end()) return {};
  return corrupt(std::string(name_of(*twice)), "two tensors mean " + formats::shown(name_of(*twice)));
}

Checkpoint::Checkpoint(std::unique_ptr<Contents> contents) : contents_(std::move(contents)) {}
Checkpoint::Checkpoint(Checkpoint&&) noexcept = default;
Checkpoint& Checkpoint::operator=(Checkpoint&&) noexcept = default;
Checkpoint::~Checkpoint() = default;

Result<Checkpoint> Checkpoint::from_gguf(formats::GgufFile file) {
  auto contents = std::make_unique<Contents>();
  contents->gguf = std::move(file);
  MET_TRY(contents->add(contents->gguf->tensors(), contents->gguf->file_bytes()));
  MET_TRY(contents->finish());
  return Checkpoint(std::move(contents));
}

Result<Checkpoint> Checkpoint::open(const hub::ModelSource& source) {
  if (source.kind == hub::SourceKind::kGguf) {
    MET_ASSIGN(formats::GgufFile file, formats::GgufFile::open(source.path));
    return from_gguf(std::move(file));
  }
  if (source.kind == hub::SourceKind::kConfigOnly)
    return invalid(
        "model", "directory " + source.path +
                     " has config.json, but neither model.safetensors nor model.safetensors.index.json nor a "
                     ".gguf file (--load-format dummy makes random weights)");
  auto contents = std::make_unique<Contents>();
  MET_ASSIGN(contents->shards, formats::SafetensorsDirectory::open(source.path));
  for (const formats::SafetensorsFile& shard : contents->shards->shards())
    MET_TRY(contents->add(shard.tensors(), shard.file_bytes()));
  MET_TRY(contents->finish());
  return Checkpoint(std::move(contents));
}

const TensorView* Checkpoint::find(std::string_view name) const {
  const auto name_of = [&](std::uint32_t i) { return contents_->names[i]; };
  const auto it = std::ranges::lower_bound(contents_->order, name, {}, name_of);
  return it == contents_->order.end() || name_of(*it) != name ? nullptr : &contents_->tensors[*it];
}

std::span<const std::string_view> Checkpoint::names() const { return contents_->names; }
std::uint64_t Checkpoint::bytes() const { return contents_->bytes; }
const formats::GgufFile* Checkpoint::gguf() const { return contents_->gguf ? &*contents_->gguf : nullptr; }

Result<const TensorView*> Checkpoint::expect(std::string_view name, std::span<const std::int64_t> shape,
                                             std::span<const DType> dtypes) const {
  const TensorView* const tensor = find(name);
  if (tensor == nullptr) return corrupt(std::string(name), "tensor " + formats::shown(name) + " is missing");
  if (!std::ranges::equal(tensor->shape, shape))
    return corrupt(std::string(name), "tensor " + formats::shown(name) + " has the shape " +
                                          text_of(tensor->shape) + "; the configuration asks for " +
                                          text_of(shape));
  if (dtypes.empty() || std::ranges::find(dtypes, tensor->dtype) != dtypes.end()) return tensor;
  std::string allowed;
  for (const DType type : dtypes) allowed += (allowed.empty() ? "" : ", ") + std::string(info(type).name);
  return corrupt(std::string(name), "tensor " + formats::shown(name) + " has the type " +
                                        std::string(info(tensor->dtype).name) +
                                        "; supported here: " + allowed);
}

Census Checkpoint::census(std::span<const std::string> wanted) const {
  Census out;
  std::unordered_set<std::string_view> asked;
  for (const std::string& name : wanted)
    if (asked.insert(name).second && find(name) == nullptr) out.missing.push_back(name);
  for (const std::string_view name : names())
    if (!asked.contains(name)) out.unused.emplace_back(name);
  return out;
}

void Checkpoint::prefetch() const {
  if (contents_->gguf) formats::MappedFile::prefetch(contents_->gguf->file_bytes());
  if (contents_->shards)
    for (const formats::SafetensorsFile& shard : contents_->shards->shards())
      formats::MappedFile::prefetch(shard.file_bytes());
}

void Checkpoint::prefetch(const TensorView& tensor) const { formats::MappedFile::prefetch(tensor.bytes); }
void Checkpoint::release(const TensorView& tensor) const { formats::MappedFile::release(tensor.bytes); }

}  // namespace met::weights
