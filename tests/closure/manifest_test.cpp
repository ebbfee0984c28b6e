// Keys of the four files: what is read, and that everything else is refused by file and key.
#include "closure/manifest.h"

#include <gmock/gmock.h>

#include "tests/closure/temp_tree.h"

namespace met::closure {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

constexpr char kHardware[] =
    "[hardware]\nname = \"h\"\nvendor = \"nvidia\"\narch = \"sm_90a\"\nsm_count = 132\n";
constexpr char kModel[] = "model_types = [{model_type = \"llama\"}]\n[model]\nname = \"m\"\n";

struct Refused {
  const char* file;
  std::string text;
  const char* want;
};

class RefusedKey : public testing::TestWithParam<Refused> {};

TEST_P(RefusedKey, IsNamedWithItsFile) {
  TempTree tree;
  tree.add("f", GetParam().text);
  const std::string file = GetParam().file;
  const auto path = tree.root() / "f";
  const std::string got = file == "HARDWARE" ? said(read_hardware(path, "x/HARDWARE.toml"))
                          : file == "MODEL"  ? said(read_model(path, "x/MODEL.toml"))
                          : file == "KERNEL" ? said(read_kernel(path, "x/KERNEL.toml"))
                                             : said(check_bench(path, "x/BENCH.toml"));
  EXPECT_THAT(got, HasSubstr("x/" + file + ".toml: "));
  EXPECT_THAT(got, HasSubstr(GetParam().want));
}

INSTANTIATE_TEST_SUITE_P(
    Tables, RefusedKey,
    testing::Values(
        Refused{"HARDWARE", std::string(kHardware) + "colour = 1\n", "unknown key hardware.colour"},
        Refused{"HARDWARE", std::string(kHardware) + "[defaults]\nblok_size = 16\n",
                "unknown key defaults.blok_size"},
        Refused{"HARDWARE", std::string(kHardware) + "[defaults]\nscheduler_config = \"fast\"\n",
                "key defaults.scheduler_config is \"fast\""},
        Refused{"HARDWARE", "[hardware]\nname = \"h\"\nvendor = \"abacus\"\n",
                "key hardware.vendor is \"abacus\""},
        Refused{"HARDWARE", "[hardware]\nvendor = \"cpu\"\n", "key hardware.name is missing"},
        Refused{"HARDWARE", "[hardware]\nname = \"h\"\nvendor = \"cpu\"\narch = \"x86-64\"\n",
                "key hardware.arch does not belong to vendor cpu"},
        Refused{
            "HARDWARE", "[hardware]\nname = \"h\"\nvendor = \"cpu\"\n[build.isa.x86-64]\nmmx = []\n",
            "unknown key build.isa.x86-64.mmx: instruction sets of x86-64 are generic, avx2, avx512, amx"},
        Refused{"HARDWARE", "[hardware]\nname = \"h\"\nvendor = \"cpu\"\n[build.isa.aarch64]\navx2 = []\n",
                "unknown key build.isa.aarch64.avx2: instruction sets of aarch64 are generic, dotprod, i8mm"},
        Refused{"HARDWARE", "[hardware]\nname = \"h\"\nvendor = \"cpu\"\n[build.isa.vax]\ngeneric = []\n",
                "unknown key build.isa.vax: architectures are x86-64 and aarch64"},
        Refused{"HARDWARE", std::string(kHardware) + "[build]\nextra_metal_flags = []\n",
                "key build.extra_metal_flags does not belong"},
        Refused{"HARDWARE",
                std::string(kHardware) + "[[tensor_core_policy.exempt]]\nops = [\"a\"]\nkind = \"shape\"\n",
                "tensor_core_policy.exempt[].reason is missing"},
        Refused{"HARDWARE", "[hardware]\nname = 7\nvendor = \"cpu\"\n",
                "key hardware.name must be a string, not integer"},
        Refused{"MODEL", std::string(kModel) + "color = 1\n", "unknown key model.color"},
        Refused{"MODEL", "[model]\nname = \"m\"\n", "key model_types is missing"},
        Refused{"MODEL", "model_types = [{hidden_size = 3}]\n[model]\nname = \"m\"\n",
                "key model_types[].model_type is missing"},
        Refused{"MODEL", "model_types = [{model_type = \"Llama-3\"}]\n[model]\nname = \"m\"\n",
                "key model_types[].model_type is \"Llama-3\""},
        Refused{"MODEL", std::string(kModel) + "[model.dims]\nhidden = 576\n",
                "key model_types[].hidden_size is missing"},
        Refused{"MODEL", "model_types = [{model_type = \"a\", hidden_size = 64}]\n[model]\nname = \"m\"\n",
                "key model.dims is missing"},
        Refused{"MODEL",
                "model_types = [{model_type = \"a\", hidden_size = 64}]\n[model]\nname = "
                "\"m\"\n[model.dims]\nhidden = 65\n",
                "key model.dims.hidden differs"},
        Refused{"MODEL",
                "model_types = [{model_type = \"a\", hidden_size = 64}]\n[model]\nname = "
                "\"m\"\n[model.dims]\nhidden = 64\nlayers = 99999999999\n",
                "key model.dims.layers is out of range"},
        Refused{"MODEL", std::string(kModel) + "[sampling.poetry]\ntop_k = 1\n",
                "unknown key sampling.poetry"},
        Refused{"MODEL", std::string(kModel) + "[behavior]\nmood = true\n", "unknown key behavior.mood"},
        Refused{"MODEL", std::string(kModel) + "[expected_absent.norm]\nfast = \"\"\n",
                "key expected_absent.norm.fast gives no reason"},
        Refused{"MODEL", std::string(kModel) + "match_names = [\"\"]\n",
                "key model.match_names holds an empty name"},
        Refused{"KERNEL", "[source]\nuse = []\n", "unknown key source"},
        Refused{"KERNEL", "[sources]\nuse = [1]\n", "key sources.use must be an array of strings"},
        Refused{"KERNEL", "[shadow]\n\"a.cu\" = \"\"\n", "key shadow.a.cu gives no reason"},
        Refused{"KERNEL", "[modules]\na = \"\"\n", "key modules.a gives no module name"},
        Refused{"BENCH", "[[gates]]\nname = \"g\"\n", "key gates[].benchmark is missing"},
        Refused{"BENCH", "[[gates]]\nname = \"g\"\nbenchmark = \"b\"\nspeed = 1\n",
                "unknown key gates[].speed"}));

TEST(Manifest, HardwareIsReadWhole) {
  TempTree tree;
  tree.add("f",
           std::string(kHardware) +
               "inherits = \"p\"\n[build]\nextra_nvcc_flags = [\"-a\"]\n"
               "[defaults]\nscheduler_config = \"async\"\nblock_size = 32\n"
               "[benchmarks.limits.thermal]\nmax_c = 80\n[[tensor_core_policy.require]]\nops = [\"gemm\"]\n");
  const auto h = read_hardware(tree.root() / "f", "f");
  ASSERT_TRUE(h) << said(h);
  EXPECT_EQ(h->vendor, Vendor::kNvidia);
  EXPECT_EQ(h->arch, "sm_90a");
  EXPECT_EQ(h->sm_count, 132);
  EXPECT_EQ(h->inherits, "p");
  EXPECT_THAT(h->flags, ElementsAre("-a"));
  EXPECT_THAT(h->defaults, ElementsAre(Pair("block_size", "32"), Pair("scheduler_config", "async")));
  EXPECT_THAT(h->unstated_defaults,
              ElementsAre("max_batch_size", "max_prefill_tokens", "mixed_prefill_tokens", "kv_cache_dtype",
                          "prefill_varlen_batch", "prefill_codispatch", "prefill_first_chunk"));
}

TEST(Manifest, VendorsHaveSynonyms) {
  for (const auto& [word, want] : {std::pair("cuda", Vendor::kNvidia), std::pair("metal", Vendor::kApple),
                                   std::pair("rocm", Vendor::kAmd), std::pair("scale", Vendor::kAmd),
                                   std::pair("amd", Vendor::kAmd), std::pair("hip", Vendor::kHip)}) {
    TempTree tree;
    tree.add("f", "[hardware]\nname = \"h\"\nvendor = \"" + std::string(word) + "\"\n");
    EXPECT_EQ(read_hardware(tree.root() / "f", "f")->vendor, want) << word;
  }
}

TEST(Manifest, ModelBehaviourIsKeptAsGiven) {
  TempTree tree;
  tree.add("f", std::string(kModel) +
                    "[behavior]\nthinking_default = true\n[sampling.tools]\ntemperature = 0.6\n"
                    "[kernel]\nrows_per_cta = 4\n[expected_absent.norm]\nfast = \"not on this chip\"\n");
  const auto m = read_model(tree.root() / "f", "f");
  ASSERT_TRUE(m) << said(m);
  EXPECT_EQ(json::write(m->behavior),
            R"({"sampling":{"tools":{"temperature":0.6}},"behavior":{"thinking_default":true}})");
  EXPECT_THAT(m->constants, ElementsAre(Pair("rows_per_cta", 4)));
  ASSERT_EQ(m->expected_absent.size(), 1U);
  EXPECT_EQ(m->expected_absent[0].kernel, "fast");
  EXPECT_FALSE(m->exact());
}

}  // namespace
}  // namespace met::closure
