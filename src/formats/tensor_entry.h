// One row of a container's tensor table, in the form that both containers share.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/dtype.h"
#include "core/error.h"

namespace met::formats {

struct TensorEntry {
  std::string name;
  std::string_view type_name;  ///< as the format writes it: "Q4_K", "IQ2_XXS", "BF16"; static storage
  std::optional<DType> dtype;  ///< absent: a type whose size is known, but that met does not compute with
  std::vector<std::int64_t> shape;  ///< outermost first (row-major); empty: one element
  std::uint64_t offset = 0;         ///< from the start of the file
  std::uint64_t bytes = 0;          ///< exact
};

/// A name from a file as it may stand in a message: quoted, escaped, cut after 80 bytes.
std::string shown(std::string_view name);

/// Order of a table's rows by name. Errors: kDataLoss naming the tensor that stands there twice.
Result<std::vector<std::uint32_t>> index_by_name(std::span<const TensorEntry> tensors);
const TensorEntry* find_by_name(std::span<const TensorEntry> tensors, std::span<const std::uint32_t> order,
                                std::string_view name);

/// Errors: kDataLoss naming the tensor that ends past `file_bytes` or overlaps the one before it.
Result<> check_spans(std::span<const TensorEntry> tensors, std::uint64_t file_bytes);

/// a * b, or nothing when it does not fit.
inline std::optional<std::uint64_t> checked_product(std::uint64_t a, std::uint64_t b) {
  std::uint64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) return std::nullopt;
  return product;
}

}  // namespace met::formats
