#include "met/ops.h"
#include "tests/ops/oracle/attention.h"
#include "tests/ops/oracle/linear.h"
#include "tests/ops/support/isa.h"
#include "tests/ops/support/paged.h"
#include "tests/ops/support/pool.h"

namespace met::test {
namespace {

struct Case {
  int heads;
  int kv_heads;
  int head_dim;
  int rotary_dim;  ///< 0: no rotation
  bool interleaved = false;
  bool norms = false;
  float scale = 1.0F;
};

struct Row {
  int position;
  int tokens;
};

class RopeKvTest : public testing::TestWithParam<Case> {};

TEST_P(RopeKvTest, MatchesOracleAndWritesTheCache) {
  const Case c = GetParam();
  const std::vector<Row> rows = {{0, 1}, {5, 40}, {1023, 1}, {20000, 3}};
  Random random(21);
  std::vector<int> lengths;
  std::vector<StepRow> step_rows;
  int tokens = 0;
  for (const Row& row : rows) {
    lengths.push_back(row.position + row.tokens);
    tokens += row.tokens;
  }
  PagedCache cache(random, c.kv_heads, c.head_dim, lengths);
  int begin = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    step_rows.push_back({begin, rows[i].tokens, rows[i].position, cache.table_begin(i)});
    begin += rows[i].tokens;
  }
  const StepCounts counts{tokens, static_cast<std::int32_t>(rows.size()), 0, 0};
  const auto dim = static_cast<std::size_t>(c.head_dim);
  const auto stride = static_cast<std::size_t>(c.heads + 2 * c.kv_heads) * dim;
  const std::vector<float> before = normal_floats(random, stride * static_cast<std::size_t>(tokens), 3.0F);
  const std::vector<float> q_norm = normal_floats(random, dim, 1.0F);
  const std::vector<float> k_norm = normal_floats(random, dim, 1.0F);
  std::vector<float> inv_freq;
  for (int i = 0; i < c.rotary_dim / 2; ++i) inv_freq.push_back(std::pow(10000.0F, -2.0F * i / c.rotary_dim));

  for (const Isa& isa : isas()) {
    for (const int threads : {1, 3}) {
      Pool pool(threads);
      PagedCache written = cache;
      Guarded qkv(before.size());
      std::copy(before.begin(), before.end(), qkv.data());
      RopeKvArgs args{};
      args.qkv = qkv.data();
      args.q_norm = c.norms ? q_norm.data() : nullptr;
      args.k_norm = c.norms ? k_norm.data() : nullptr;
      args.inv_freq = c.rotary_dim > 0 ? inv_freq.data() : nullptr;
      args.k_cache = written.k().data();
      args.v_cache = written.v().data();
      args.step_rows = step_rows.data();
      args.block_table = cache.table();
      args.counts = &counts;
      args.heads = c.heads;
      args.kv_heads = c.kv_heads;
      args.head_dim = c.head_dim;
      args.rotary_dim = c.rotary_dim;
      args.interleaved = c.interleaved;
      args.norm_eps = 1e-6F;
      args.norm_offset = 1.0F;
      args.rope_scale = c.scale;
      pool.run(isa.find("rope_kv"), &args);
      EXPECT_TRUE(qkv.intact());

      std::size_t slots_written = 0;
      for (std::size_t s = 0; s < rows.size(); ++s) {
        for (int i = 0; i < rows[s].tokens; ++i) {
          const auto t = static_cast<std::size_t>(step_rows[s].token_begin + i);
          const int position = rows[s].position + i;
          for (int h = 0; h < c.heads + 2 * c.kv_heads; ++h) {
            const float* source = &before[t * stride + static_cast<std::size_t>(h) * dim];
            const bool is_q = h < c.heads;
            const bool is_v = h >= c.heads + c.kv_heads;
            std::vector<double> want(source, source + dim);
            if (!is_v) {
              if (c.norms)
                want = oracle::rms_normalised(source, c.head_dim, is_q ? q_norm.data() : k_norm.data(), 1e-6,
                                              1.0);
              oracle::rotate(want, inv_freq, position, c.interleaved, c.scale);
            }
            for (int d = 0; d < c.head_dim; ++d) {
              const double w = want[static_cast<std::size_t>(d)];
              if (is_q) {
                const float got = qkv.values()[t * stride + static_cast<std::size_t>(h * c.head_dim + d)];
                ASSERT_NEAR(got, w, 2e-5) << isa.name << " q head " << h << " position " << position;
                continue;
              }
              const int head = (h - c.heads) % c.kv_heads;
              const std::uint16_t bits = is_v ? written.v()[written.v_at(s, position, head, d)]
                                              : written.k()[written.k_at(s, position, head, d)];
              ASSERT_NEAR(f16_to_f32(bits), w, std::abs(w) * 0x1p-11 + 2e-5)
                  << isa.name << (is_v ? " v" : " k") << " position " << position;
              ++slots_written;
            }
          }
        }
      }
      const auto untouched = std::count(written.k().begin(), written.k().end(), 0x7E00) +
                             std::count(written.v().begin(), written.v().end(), 0x7E00);
      EXPECT_EQ(slots_written + static_cast<std::size_t>(untouched), written.k().size() + written.v().size())
          << "wrote slots that no token owns";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, RopeKvTest,
                         testing::Values(Case{9, 3, 64, 64, true}, Case{4, 4, 16, 16},
                                         Case{4, 1, 256, 256, false, true}, Case{2, 2, 96, 72},
                                         Case{6, 2, 80, 20, true, true, 1.19F},
                                         Case{2, 1, 128, 0, false, true}));

}  // namespace
}  // namespace met::test
