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

/// The tensors of a copy.
class Tensors {
 public:
  void add(std::string_view tensor, std::string_view dtype, std::span<const std::int64_t> shape,
           std::string_view bytes) {
    header_ += (header_.empty() ? "{\"" : ",\"") + std::string(tensor) + R"(":{"dtype":")" +
               std::string(dtype) + R"(","shape":[)";
    for (std::size_t i = 0; i < shape.size(); ++i) header_ += (i > 0 ? "," : "") + std::to_string(shape[i]);
    header_ += "],\"data_offsets\":[" + std::to_string(data_.size()) + "," +
               std::to_string(data_.size() + bytes.size()) + "]}";
    data_ += bytes;
  }
  void add(std::string_view tensor, const weights::TensorView& view) {
    add(tensor, info(view.dtype).name, view.shape,
        {reinterpret_cast<const char*>(view.bytes.data()), view.bytes.size()});
  }
  void add(const std::string& tensor, float number) {
    add(tensor, "F32", {}, {reinterpret_cast<const char*>(&number), sizeof number});
  }
  void write(const fs::path& folder) const {
    std::ofstream(folder / "model.safetensors", std::ios::binary)
        << met::testing::safetensors(header_ + "}", data_);
  }

 private:
  std::string header_, data_;
};

weights::Checkpoint open(const std::string& name) {
  auto checkpoint = weights::Checkpoint::open({hub::SourceKind::kSafetensors, checkpoint_path(name), name});
  if (!checkpoint) throw std::runtime_error(checkpoint.error().message);
  return std::move(*checkpoint);
}

/// An empty folder with all of a checkpoint in it, its tensors to be replaced.
fs::path copied(const std::string& name, const std::string& kind) {
  const fs::path folder = fs::path(::testing::TempDir()) / ("met_" + kind + "_" + std::to_string(getpid()));
  fs::remove_all(folder);
  fs::copy(checkpoint_path(name), folder);
  return folder;
}

}  // namespace

MixedCheckpoint::MixedCheckpoint(const std::string& name, const std::vector<std::string>& matrices)
    : folder_(copied(name, "mixed")) {
  const weights::Checkpoint checkpoint = open(name);
  Tensors out;
  for (const std::string_view tensor : checkpoint.names()) {
    const weights::TensorView& view = *checkpoint.find(tensor);
    const std::string matrix(tensor.substr(0, tensor.rfind('.')));
    if (std::ranges::find(matrices, matrix) == matrices.end())
      out.add(tensor, view);
    else if (tensor.ends_with(kWeight))
      out.add(tensor, "F32", view.shape, floats_of(view, *checkpoint.find(matrix + ".weight_scale_inv")));
  }
  out.write(folder_);
}

ScaledCacheCheckpoint::ScaledCacheCheckpoint(const std::string& name, const ops::KvScales& scales, bool told)
    : folder_(copied(name, told ? "told" : "untold")) {
  const std::pair<std::string_view, float> factors[] = {{"q_proj.weight_scale", 1 / scales.k},
                                                        {"k_proj.weight_scale", scales.k},
                                                        {"v_proj.weight_scale", scales.v},
                                                        {"o_proj.weight_scale", 1 / scales.v}};
  const weights::Checkpoint checkpoint = open(name);
  Tensors out;
  for (const std::string_view tensor : checkpoint.names()) {
    const weights::TensorView& view = *checkpoint.find(tensor);
    const auto factor =
        std::ranges::find_if(factors, [&](const auto& f) { return tensor.ends_with(f.first); });
    if (factor == std::end(factors)) {
      out.add(tensor, view);
      continue;
    }
    std::vector<float> values(view.bytes.size() / sizeof(float));
    std::memcpy(values.data(), view.bytes.data(), view.bytes.size());
    for (float& value : values) value *= factor->second;
    out.add(tensor, "F32", view.shape, {reinterpret_cast<const char*>(values.data()), view.bytes.size()});
    const std::string matrix(tensor.substr(0, tensor.rfind('.')));
    if (told && matrix.ends_with("k_proj")) out.add(matrix + ".k_scale", scales.k);
    if (told && matrix.ends_with("v_proj")) out.add(matrix + ".v_scale", scales.v);
  }
  out.write(folder_);
}

}  // namespace met::golden
