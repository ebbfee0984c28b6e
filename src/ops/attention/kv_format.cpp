#include "ops/attention/kv_format.h"

#include <charconv>
#include <limits>

namespace met::ops {

namespace {

constexpr std::string_view kFlag = "--kv-high-precision-layers";

Result<int> layers_at_each_end(std::string_view text) {
  if (text == "auto") return 2;
  if (text == "max" || text == "all") return std::numeric_limits<int>::max();
  int count = 0;
  const char* const end = text.data() + text.size();
  const auto [read, code] = std::from_chars(text.data(), end, count);
  if (code != std::errc{} || read != end || count < 0)
    return invalid(std::string(kFlag),
                   "'" + std::string(text) + "' is neither a number of layers nor auto, max or all");
  return count;
}

}  // namespace

std::string KvFormat::name() const {
  const std::string base(info(type).name);
  return wide_layers == 0 ? base : base + " (bf16: first and last " + std::to_string(wide_layers) + ")";
}

Result<KvFormat> kv_format(DType type, std::string_view high_precision_layers, int layers) {
  MET_ASSIGN(const int wide, layers_at_each_end(high_precision_layers));
  if (wide == 0) return KvFormat{.type = type};
  if (type != DType::kF8E4M3 && type != DType::kI8)
    return unsupported(std::string(kFlag), "the cache is " + std::string(info(type).name) +
                                               ": only fp8 and int8 have layers to keep in BF16");
  if (wide >= layers - wide) return KvFormat{.type = DType::kBF16};
  return KvFormat{.type = type, .wide_layers = wide};
}

}  // namespace met::ops
