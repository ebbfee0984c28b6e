#include "formats/ggml_type.h"

#include <algorithm>

namespace met::formats {

namespace {

struct Row {
  std::uint32_t number;
  GgmlType type;
};

GgmlType of(DType dtype) {
  const DTypeInfo& i = info(dtype);
  return {i.name, static_cast<std::uint32_t>(i.block_elements), static_cast<std::uint32_t>(i.block_bytes),
          dtype};
}

// Numbers and block sizes: ggml.h and gguf-py's GGML_QUANT_SIZES. 4, 5, 31-33 and 36-38 were withdrawn.
const Row kRows[] = {
    {0, of(DType::kF32)},          {1, of(DType::kF16)},           {2, of(DType::kQ4_0)},
    {3, of(DType::kQ4_1)},         {6, of(DType::kQ5_0)},          {7, of(DType::kQ5_1)},
    {8, of(DType::kQ8_0)},         {9, {"Q8_1", 32, 36, {}}},      {10, of(DType::kQ2_K)},
    {11, of(DType::kQ3_K)},        {12, of(DType::kQ4_K)},         {13, of(DType::kQ5_K)},
    {14, of(DType::kQ6_K)},        {15, {"Q8_K", 256, 292, {}}},   {16, {"IQ2_XXS", 256, 66, {}}},
    {17, {"IQ2_XS", 256, 74, {}}}, {18, {"IQ3_XXS", 256, 98, {}}}, {19, {"IQ1_S", 256, 50, {}}},
    {20, of(DType::kIQ4_NL)},      {21, {"IQ3_S", 256, 110, {}}},  {22, {"IQ2_S", 256, 82, {}}},
    {23, of(DType::kIQ4_XS)},      {24, of(DType::kI8)},           {25, of(DType::kI16)},
    {26, of(DType::kI32)},         {27, of(DType::kI64)},          {28, of(DType::kF64)},
    {29, {"IQ1_M", 256, 56, {}}},  {30, of(DType::kBF16)},         {34, {"TQ1_0", 256, 54, {}}},
    {35, {"TQ2_0", 256, 66, {}}},  {39, of(DType::kMXFP4)},        {40, {"NVFP4", 64, 36, {}}},
    {41, {"Q1_0", 128, 18, {}}},   {42, {"Q2_0", 64, 18, {}}},
};

}  // namespace

const GgmlType* ggml_type(std::uint32_t number) {
  const auto* const row = std::ranges::lower_bound(kRows, number, {}, &Row::number);
  return row == std::end(kRows) || row->number != number ? nullptr : &row->type;
}

}  // namespace met::formats
