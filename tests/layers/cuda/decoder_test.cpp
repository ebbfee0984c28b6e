// Which kernels a step enqueues where layers store their matrices in different ways, and what they read: a decoder on the
// mock device.
#include "layers/cuda/decoder.h"

#include <gmock/gmock.h>

#include <cstring>
#include <map>

#include "gpu/mock/mock_backend.h"
#include "tests/layers/cuda/tiny_decoder.h"

namespace met::layers::cuda {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

enum class Stored { kFloats, kRows, kBlocks };

constexpr int kHidden = 256, kFfn = 384, kHeads = 4, kKvHeads = 2, kHeadDim = 64, kVocabulary = 512,
              kExperts = 8, kWidth = 64;

class DecoderTest : public ::testing::Test {
 protected:
  gpu::DeviceMemory memory(std::size_t bytes) { return testing::device_memory(device_, bytes); }
  DeviceMatrix matrix(Stored stored, std::int64_t n, std::int64_t k) {
    DeviceMatrix m{.n = n, .k = k};
    if (stored != Stored::kFloats) {
      m.type = DType::kF8E4M3;
      m.block_scales = stored == Stored::kBlocks;
      m.scales = memory(static_cast<std::size_t>(n) * sizeof(float));
    }
    m.data = memory(bytes_of(m.type, static_cast<std::size_t>(n * k)));
    return m;
  }
  struct Layer {
    Stored qkv, out, gate_up, down;
    bool sparse = false;  ///< gate_up and down are those of experts
  };
  /// Of the cache of layer 1 and so on.
  static ops::KvScales scales_of(std::size_t layer) {
    return {.k = 0.5F * static_cast<float>(layer), .v = 0.125F * static_cast<float>(layer)};
  }
  void make(const std::vector<Layer>& layers) {
    config_.layer.resize(layers.size());
    DecoderWeights weights;
    weights.embedding = matrix(Stored::kFloats, kVocabulary, kHidden);
    weights.final_norm = memory(kHidden * sizeof(float));
    for (const Layer& layer : layers) {
      DecoderLayerWeights& w = weights.layers.emplace_back();
      w.spec = {.heads = kHeads,
                .kv_heads = kKvHeads,
                .head_dim = kHeadDim,
                .kv_scales = scales_of(weights.layers.size())};
      w.attention_norm = memory(kHidden * sizeof(float));
      w.ffn_norm = memory(kHidden * sizeof(float));
      w.qkv = matrix(layer.qkv, (kHeads + 2 * kKvHeads) * kHeadDim, kHidden);
      w.out = matrix(layer.out, kHidden, kHeads * kHeadDim);
      if (layer.sparse) {
        w.moe.router = matrix(Stored::kFloats, kExperts, kHidden);
        w.moe.gate_up = matrix(layer.gate_up, kExperts * 2 * kWidth, kHidden);
        w.moe.down = matrix(layer.down, kExperts * kHidden, kWidth);
        config_.experts = kExperts;
        config_.experts_per_token = 2;
        config_.expert_ffn = kWidth;
        continue;
      }
      w.gate_up = matrix(layer.gate_up, 2 * kFfn, kHidden);
      w.down = matrix(layer.down, kHidden, kFfn);
    }
    Decoder::Limits limits{.step = {.tokens = 96, .rows = 96, .logits = 96}, .buckets = {8, 96}};
    limits.table = 64;
    limits.blocks = 4;
    limits.positions = 64;
    limits.weights = DType::kF8E4M3;
    auto made = Decoder::make(device_, config_, std::move(weights), limits);
    ASSERT_TRUE(made) << made.error().message;
    decoder_ = std::move(*made);
    const auto allocated = decoder_->allocate();
    ASSERT_TRUE(allocated) << allocated.error().message;
    decoder_->feed_from(decoder_->inputs());
  }

  /// Products and what makes their rows, in order: "qkv" and so on stand for the module of each.
  std::vector<std::string> launched(std::size_t begin) {
    std::vector<std::string> out;
    for (std::size_t i = begin; i < device_.launches().size(); ++i) {
      const std::string& module = device_.launches()[i].module;
      for (const char* known :
           {"projection", "projection_e4m3", "gemm", "gemm_e4m3", "quantise", "residual_norm", "moe_few",
            "moe_few_e4m3", "moe_gemm", "moe_gemm_e4m3", "moe_combine"})
        if (module == known) out.push_back(module);
    }
    return out;
  }
  std::vector<std::string> decode(int rows) {
    const std::size_t begin = device_.launches().size();
    EXPECT_TRUE(decoder_->decode(rows, /*brief=*/false, device_.default_stream()));
    return launched(begin);
  }
  std::vector<std::string> prefill() {
    const std::size_t begin = device_.launches().size();
    EXPECT_TRUE(decoder_->mixed({.capacity = {40, 1, 1}, .decode_rows = false, .prefill_rows = true},
                                device_.default_stream()));
    return launched(begin);
  }
  template <class Args>
  static Args arguments(const gpu::mock::LaunchRecord& launch) {
    Args args{};
    std::memcpy(&args, launch.arguments.at(0).bytes.data(), sizeof args);
    return args;
  }
  static std::uint64_t address(const DeviceTensorMap& map) {
    std::uint64_t value = 0;
    std::memcpy(&value, map.bytes, sizeof value);
    return value;
  }

  gpu::mock::MockBackend device_{{.multiprocessors = 132}};
  config::ModelConfig config_ = testing::tiny_config({.hidden = kHidden,
                                                      .ffn = kFfn,
                                                      .heads = kHeads,
                                                      .kv_heads = kKvHeads,
                                                      .head_dim = kHeadDim,
                                                      .vocabulary = kVocabulary});
  std::unique_ptr<Decoder> decoder_;
};

TEST_F(DecoderTest, EachMatrixIsMultipliedAsItIsStored) {
  make({{Stored::kRows, Stored::kRows, Stored::kRows, Stored::kFloats},
        {Stored::kFloats, Stored::kFloats, Stored::kFloats, Stored::kRows}});
  EXPECT_THAT(decode(8), ElementsAre("quantise", "projection_e4m3", "projection_e4m3", "projection_e4m3",
                                     "projection", "projection", "projection", "projection", "quantise",
                                     "projection_e4m3", "projection"));
  EXPECT_THAT(prefill(), ElementsAre("quantise", "gemm_e4m3", "quantise", "gemm_e4m3", "quantise",
                                     "gemm_e4m3", "gemm", "residual_norm", "gemm", "gemm", "residual_norm",
                                     "gemm", "quantise", "gemm_e4m3", "residual_norm", "projection"));
}

// Behind a mixture whoever reads codes finds them, whether the next layer's matrices are E4M3 or not.
TEST_F(DecoderTest, MixturesOfE4m3LeaveWhatTheNextLayerReads) {
  constexpr auto kRows = Stored::kRows;
  constexpr auto kFloats = Stored::kFloats;
  make({{kRows, kRows, kRows, kRows, true},
        {kRows, kRows, kRows, kRows, true},
        {kFloats, kFloats, kRows, kFloats, true}});
  EXPECT_THAT(decode(8),
              ElementsAre("quantise", "projection_e4m3", "projection_e4m3", "moe_few_e4m3", "moe_few_e4m3",
                          "quantise", "projection_e4m3", "projection_e4m3", "moe_few_e4m3", "moe_few_e4m3",
                          "projection", "projection", "moe_few_e4m3", "moe_few", "projection"));
  const std::size_t begin = device_.launches().size();
  EXPECT_THAT(prefill(),
              ElementsAre("quantise", "gemm_e4m3", "quantise", "gemm_e4m3", "residual_norm", "quantise",
                          "moe_gemm_e4m3", "quantise", "moe_gemm_e4m3", "moe_combine",  //
                          "quantise", "gemm_e4m3", "quantise", "gemm_e4m3", "residual_norm", "quantise",
                          "moe_gemm_e4m3", "quantise", "moe_gemm_e4m3", "moe_combine",  //
                          "gemm", "gemm", "residual_norm", "quantise", "moe_gemm_e4m3", "moe_gemm",
                          "moe_combine", "residual_norm", "projection"));
  std::vector<bool> norms;  // whether the block's sum is also normed
  for (std::size_t i = begin; i < device_.launches().size(); ++i)
    if (device_.launches()[i].module == "moe_combine")
      norms.push_back(arguments<MoeCombineArgs>(device_.launches()[i]).normed != nullptr);
  EXPECT_THAT(norms, ElementsAre(false, true, false));
}

TEST_F(DecoderTest, DecodeReadsScalesOfBlocksToo) {
  make({{Stored::kBlocks, Stored::kRows, Stored::kBlocks, Stored::kFloats}});
  const std::size_t begin = device_.launches().size();
  EXPECT_THAT(decode(8), ElementsAre("quantise", "projection_e4m3", "projection_e4m3", "projection_e4m3",
                                     "projection", "projection"));
  std::vector<int> blocks;
  for (std::size_t i = begin; i < device_.launches().size(); ++i)
    if (device_.launches()[i].module.starts_with("projection"))
      blocks.push_back(arguments<ProjectionArgs>(device_.launches()[i]).block_scales);
  EXPECT_THAT(blocks, ElementsAre(1, 0, 1, 0, 0));
}

TEST_F(DecoderTest, WhoeverWritesOrReadsACacheHasTheScalesOfItsLayer) {  // M8
  constexpr Layer kFloats{Stored::kFloats, Stored::kFloats, Stored::kFloats, Stored::kFloats};
  make({kFloats, kFloats, kFloats});
  const std::size_t begin = device_.launches().size();
  decode(8);
  prefill();
  std::map<std::string, std::vector<std::pair<float, float>>>
      scales;  // of each module, in the order of its launches
  const auto note = [&](const gpu::mock::LaunchRecord& launch, const AttentionLayerArgs& layer) {
    scales[launch.module].emplace_back(layer.k_scale, layer.v_scale);
  };
  for (std::size_t i = begin; i < device_.launches().size(); ++i) {
    const gpu::mock::LaunchRecord& launch = device_.launches()[i];
    if (launch.module == "decode_attention") note(launch, arguments<DecodeAttentionArgs>(launch).layer);
    if (launch.module == "prefill_attention") note(launch, arguments<PrefillAttentionArgs>(launch).layer);
    if (launch.module == "rope_kv") note(launch, arguments<RopeKvDeviceArgs>(launch).layer);
  }
  std::vector<std::pair<float, float>> want;
  for (std::size_t layer = 1; layer <= 3; ++layer) want.emplace_back(scales_of(layer).k, scales_of(layer).v);
  for (const char* module : {"decode_attention", "prefill_attention", "rope_kv"})
    EXPECT_EQ(scales[module], want) << module;
}

// Who writes the rows of a product with E4M3 weights codes them; whoever reads others gets them as they are.
TEST_F(DecoderTest, DecodeRowsAreCodedByTheirWriter) {
  constexpr Layer kRows{Stored::kRows, Stored::kRows, Stored::kRows, Stored::kRows};
  make({kRows, {Stored::kFloats, Stored::kRows, Stored::kFloats, Stored::kRows}, kRows});
  const std::size_t begin = device_.launches().size();
  EXPECT_THAT(decode(8), ElementsAre("quantise", "projection_e4m3", "projection_e4m3", "projection_e4m3",
                                     "projection_e4m3",  // the first layer's down feeds floats
                                     "projection", "projection_e4m3", "projection", "quantise",
                                     "projection_e4m3", "projection_e4m3", "projection_e4m3",
                                     "projection_e4m3", "projection_e4m3", "projection"));
  const StepTensors& tensors = decoder_->tensors();
  CodedRows made;     // by the launch in front, for the next one that reads rows
  bool plain = true;  // `scaled` is what the residual stream's reader reads
  for (std::size_t i = begin; i < device_.launches().size(); ++i) {
    const gpu::mock::LaunchRecord& launch = device_.launches()[i];
    if (launch.module == "decode_attention") {
      made = arguments<DecodeAttentionArgs>(launch).coded;
      EXPECT_EQ(reinterpret_cast<std::uint64_t>(made.codes), tensors.coded_attention.value) << i;
    } else if (launch.module == "quantise") {
      const auto args = arguments<QuantiseArgs>(launch);
      EXPECT_EQ(args.scale_values, ops::cuda::kScaleValues) << i;
      made = {.codes = args.y, .scales = args.scales, .width = args.k, .rows = args.scales_ld};
    } else if (launch.module.starts_with("projection")) {
      const auto args = arguments<ProjectionArgs>(launch);
      if (launch.module == "projection_e4m3") {
        EXPECT_EQ(address(args.x), reinterpret_cast<std::uint64_t>(made.codes)) << i;
        EXPECT_EQ(args.x_scales, made.scales) << i;
        EXPECT_EQ(args.k, made.width) << i;
        EXPECT_EQ(made.rows, 8) << i;
      } else if (args.norm.parts != nullptr) {
        EXPECT_TRUE(plain) << i;
        EXPECT_EQ(address(args.x), tensors.scaled.value) << i;
      }
      made = args.coded;
      if (args.epilogue == Epilogue::kResidual) {
        plain = args.scaled != nullptr;
        EXPECT_NE(plain, made.codes != nullptr) << i;
      }
    }
  }
}

TEST_F(DecoderTest, Fp8ProductsReadRowsInFp8) {
  make({{Stored::kRows, Stored::kFloats, Stored::kBlocks, Stored::kRows}});
  const std::size_t begin = device_.launches().size();
  prefill();
  std::vector<GemmArgs> products;
  for (std::size_t i = begin; i < device_.launches().size(); ++i)
    if (device_.launches()[i].module.starts_with("gemm"))
      products.push_back(arguments<GemmArgs>(device_.launches()[i]));
  ASSERT_EQ(products.size(), 4U);
  const StepTensors& tensors = decoder_->tensors();
  EXPECT_EQ(address(products[0].x), tensors.quantised.value);
  EXPECT_EQ(address(products[1].x), tensors.attention.value);
  EXPECT_EQ(products[1].x_scales, nullptr);
  EXPECT_EQ(products[1].weight_scales, nullptr);
  EXPECT_EQ(products[0].block_scales, 0);
  EXPECT_EQ(products[2].block_scales, 1);
  EXPECT_EQ(products[3].block_scales, 0);
  for (const std::size_t e4m3 : {0, 2, 3}) {
    EXPECT_NE(products[e4m3].weight_scales, nullptr);
    EXPECT_EQ(reinterpret_cast<std::uint64_t>(products[e4m3].x_scales), tensors.row_scales.value);
  }
}

// As many values of k share a scale of x as the product that reads the rows takes them to, whoever was in front.
TEST_F(DecoderTest, RowsAreQuantisedAsTheirReaderStoresItsWeights) {
  constexpr auto kRows = Stored::kRows;
  constexpr auto kBlocks = Stored::kBlocks;
  make({{kRows, kBlocks, kRows, kBlocks}, {kBlocks, kRows, kBlocks, kRows}});
  const auto check = [&](std::size_t begin) {
    const QuantiseArgs none{};
    QuantiseArgs made = none;
    int products = 0;
    for (std::size_t i = begin; i < device_.launches().size(); ++i) {
      const gpu::mock::LaunchRecord& launch = device_.launches()[i];
      if (launch.module == "quantise") made = arguments<QuantiseArgs>(launch);
      if (launch.module != "gemm_e4m3") continue;
      const auto args = arguments<GemmArgs>(launch);
      EXPECT_EQ(made.scale_values, args.block_scales != 0 ? 128 : 512) << i;
      EXPECT_EQ(made.scales, args.x_scales) << i;
      EXPECT_EQ(made.scales_ld, args.x_scales_ld) << i;
      EXPECT_EQ(made.k, args.k) << i;
      made = none;
      ++products;
    }
    EXPECT_EQ(products, 8);
  };
  std::size_t begin = device_.launches().size();
  prefill();
  check(begin);
  begin = device_.launches().size();
  decode(96);
  check(begin);
}

TEST_F(DecoderTest, DecodeStepsLeaveNormsToTheirProducts) {
  make({{Stored::kFloats, Stored::kRows, Stored::kBlocks, Stored::kFloats}});
  EXPECT_THAT(decode(8),
              ElementsAre("projection", "projection_e4m3", "projection_e4m3", "projection", "projection"));
  EXPECT_THAT(decode(96),
              ElementsAre("gemm", "quantise", "gemm_e4m3", "quantise", "gemm_e4m3", "gemm", "projection"));
}

TEST_F(DecoderTest, ANormReadsAsManySumsAsWereWritten) {
  constexpr Layer kFloats{Stored::kFloats, Stored::kFloats, Stored::kFloats, Stored::kFloats};
  make({kFloats, kFloats});
  const std::size_t begin = device_.launches().size();
  decode(96);
  int parts = 1;  // the embedding's
  int norms = 0;
  for (std::size_t i = begin; i < device_.launches().size(); ++i) {
    const gpu::mock::LaunchRecord& launch = device_.launches()[i];
    RowSquares norm;
    if (launch.module == "gemm") norm = arguments<GemmArgs>(launch).norm;
    if (launch.module == "projection") norm = arguments<ProjectionArgs>(launch).norm;
    if (norm.parts != nullptr) {
      EXPECT_EQ(norm.count, parts) << i;
      ++norms;
    }
    if (launch.module == "gemm" && arguments<GemmArgs>(launch).squares != nullptr)
      parts = arguments<GemmArgs>(launch).squares_count;
  }
  EXPECT_EQ(norms, 5);
}

TEST_F(DecoderTest, KernelsThatNoLayerNeedsAreNotLookedUp) {
  make({{Stored::kFloats, Stored::kFloats, Stored::kFloats, Stored::kFloats}});
  for (const gpu::mock::Lookup& lookup : device_.lookups())
    EXPECT_THAT(lookup.module, ::testing::Not(HasSubstr("e4m3"))) << lookup.function;
}

}  // namespace
}  // namespace met::layers::cuda
