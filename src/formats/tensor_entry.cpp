#include "formats/tensor_entry.h"

#include <algorithm>
#include <numeric>

#include "core/json.h"

namespace met::formats {

std::string shown(std::string_view name) {
  constexpr std::size_t kShownMax = 80;
  std::string out;
  json::write_string(name.substr(0, kShownMax), out);
  if (name.size() > kShownMax) out += "...";
  return out;
}

Result<std::vector<std::uint32_t>> index_by_name(std::span<const TensorEntry> tensors) {
  std::vector<std::uint32_t> order(tensors.size());
  std::iota(order.begin(), order.end(), 0U);
  const auto name = [&](std::uint32_t i) -> const std::string& { return tensors[i].name; };
  std::ranges::sort(order, {}, name);
  const auto twice = std::ranges::adjacent_find(order, {}, name);
  if (twice != order.end())
    return corrupt(name(*twice), "tensor " + shown(name(*twice)) + " stands in the table twice");
  return order;
}

const TensorEntry* find_by_name(std::span<const TensorEntry> tensors, std::span<const std::uint32_t> order,
                                std::string_view name) {
  const auto key = [&](std::uint32_t i) -> std::string_view { return tensors[i].name; };
  const auto it = std::ranges::lower_bound(order, name, {}, key);
  return it == order.end() || key(*it) != name ? nullptr : &tensors[*it];
}

Result<> check_spans(std::span<const TensorEntry> tensors, std::uint64_t file_bytes) {
  std::vector<const TensorEntry*> order;
  for (const TensorEntry& t : tensors) {
    if (t.offset > file_bytes || t.bytes > file_bytes - t.offset)
      return corrupt(t.name, "tensor " + shown(t.name) + " needs " + std::to_string(t.bytes) +
                                 " bytes from " + std::to_string(t.offset) + " on, but the file has " +
                                 std::to_string(file_bytes));
    order.push_back(&t);
  }
  std::ranges::sort(order, {}, [](const TensorEntry* t) { return std::pair(t->offset, t->bytes); });
  for (std::size_t i = 1; i < order.size(); ++i) {
    const TensorEntry& before = *order[i - 1];
    if (before.offset + before.bytes > order[i]->offset)
      return corrupt(order[i]->name,
                     "tensors " + shown(before.name) + " and " + shown(order[i]->name) + " overlap");
  }
  return {};
}

}  // namespace met::formats
