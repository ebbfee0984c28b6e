#include "tests/golden/mixed_checkpoint.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <stdexcept>

#include "core/dtype.h"
#include "tests/formats/safetensors_builder.h"
#include "tests/golden/support.h"
#include "weights/checkpoint.h"

namespace met::golden {

namespace fs = std::filesystem;

namespace {

constexpr std::int64_t kBlock = 128;
constexpr std::string_view kWeight = ".weight";

std::string floats_of(const weights::TensorView& weight, const weights::TensorView& scales) {
  const std::int64_t n = weight.shape[0], k = weight.shape[1];
  const std::int64_t groups = (k + kBlock - 1) / kBlock;
  std::string out;
  for (std::int64_t i = 0; i < n * k; ++i) {
    float scale = 0;
    const auto at = static_cast<std::size_t>(i / k / kBlock * groups + i % k / kBlock);
    std::memcpy(&scale, scales.bytes.data() + at * sizeof scale, sizeof scale);
    const float value =
        scale * f8e4m3_to_f32(static_cast<std::uint8_t>(weight.bytes[static_cast<std::size_t>(i)]));
    out.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  return out;
}

}  // namespace

MixedCheckpoint::MixedCheckpoint(const std::string& name, const std::vector<std::string>& matrices)
    : folder_(fs::path(::testing::TempDir()) / ("met_mixed_" + std::to_string(getpid()))) {
  fs::remove_all(folder_);
  fs::copy(checkpoint_path(name), folder_);
  const auto checkpoint =
      weights::Checkpoint::open({hub::SourceKind::kSafetensors, checkpoint_path(name), name});
  if (!checkpoint) throw std::runtime_error(checkpoint.error().message);
  std::string header, data;
  const auto add = [&](std::string_view tensor, std::string_view dtype, std::span<const std::int64_t> shape,
                       std::string_view bytes) {
    header += (header.empty() ? "{\"" : ",\"") + std::string(tensor) + R"(":{"dtype":")" +
              std::string(dtype) + R"(","shape":[)";
    for (std::size_t i = 0; i < shape.size(); ++i) header += (i > 0 ? "," : "") + std::to_string(shape[i]);
    header += "],\"data_offsets\":[" + std::to_string(data.size()) + "," +
              std::to_string(data.size() + bytes.size()) + "]}";
    data += bytes;
  };
  for (const std::string_view tensor : checkpoint->names()) {
    const weights::TensorView& view = *checkpoint->find(tensor);
    const std::string matrix(tensor.substr(0, tensor.rfind('.')));
    if (std::ranges::find(matrices, matrix) == matrices.end())
      add(tensor, info(view.dtype).name, view.shape,
          {reinterpret_cast<const char*>(view.bytes.data()), view.bytes.size()});
    else if (tensor.ends_with(kWeight))
      add(tensor, "F32", view.shape, floats_of(view, *checkpoint->find(matrix + ".weight_scale_inv")));
  }
  std::ofstream(folder_ / "model.safetensors", std::ios::binary)
      << met::testing::safetensors(header + "}", data);
}

}  // namespace met::golden
