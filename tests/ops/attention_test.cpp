#include <map>

#include "met/ops.h"
#include "tests/ops/oracle/attention.h"
#include "tests/ops/support/isa.h"
#include "tests/ops/support/paged.h"
#include "tests/ops/support/pool.h"

namespace met::test {
namespace {

struct Case {
  int heads;
  int kv_heads;
  int head_dim;
  int window = 0;
  float softcap = 0;
  bool sinks = false;
  float magnitude = 1.0F;
};

/// Positions [position, position + tokens) of sequence `sequence` in one step.
struct Row {
  std::size_t sequence;
  int position;
  int tokens;
};

/// Some sequences whose K, V and q are all known; any step over them can be run.
class Problem {
 public:
  Problem(const Case& c, const std::vector<int>& lengths)
      : case_(c), lengths_(lengths), random_(31), cache_(random_, c.kv_heads, c.head_dim, lengths) {
    const auto dim = static_cast<std::size_t>(c.head_dim);
    std::normal_distribution<float> normal(0.0F, c.magnitude);
    for (std::size_t s = 0; s < lengths.size(); ++s) {
      q_.push_back(normal_floats(random_, static_cast<std::size_t>(lengths[s] * c.heads) * dim, c.magnitude));
      for (int p = 0; p < lengths[s]; ++p) {
        for (int h = 0; h < c.kv_heads; ++h) {
          for (int d = 0; d < c.head_dim; ++d) {
            cache_.k()[cache_.k_at(s, p, h, d)] = f32_to_f16(normal(random_));
            cache_.v()[cache_.v_at(s, p, h, d)] = f32_to_f16(normal(random_));
          }
        }
      }
    }
    for (int h = 0; h < c.heads; ++h) sinks_.push_back(normal(random_));
  }

  PagedCache& cache() { return cache_; }

  /// y of the step, [tokens, heads * head_dim].
  std::vector<float> run(const Isa& isa, int threads, const std::vector<Row>& rows) {
    const auto dim = static_cast<std::size_t>(case_.head_dim);
    const std::size_t q_size = static_cast<std::size_t>(case_.heads) * dim;
    const std::size_t stride = q_size + 2 * static_cast<std::size_t>(case_.kv_heads) * dim;
    std::vector<StepRow> step_rows;
    std::vector<float> qkv;
    std::int32_t tokens = 0;
    for (const Row& row : rows) {
      step_rows.push_back({tokens, row.tokens, row.position, cache_.table_begin(row.sequence)});
      for (int p = row.position; p < row.position + row.tokens; ++p) {
        const float* q = &q_[row.sequence][static_cast<std::size_t>(p) * q_size];
        qkv.insert(qkv.end(), q, q + q_size);
        qkv.resize(qkv.size() + stride - q_size, std::nanf(""));
      }
      tokens += row.tokens;
    }
    const StepCounts counts{tokens, static_cast<std::int32_t>(rows.size()), 0, 0};
    const int longest = *std::max_element(lengths_.begin(), lengths_.end());
    Aligned workspace(ops::attention_workspace_bytes(static_cast<int>(rows.size()), threads, case_.heads,
                                                     case_.kv_heads, case_.head_dim,
                                                     static_cast<std::size_t>(longest)));
    Guarded y(static_cast<std::size_t>(tokens) * q_size);
    AttentionArgs args{};
    args.qkv = qkv.data();
    args.k_cache = cache_.k().data();
    args.v_cache = cache_.v().data();
    args.sinks = case_.sinks ? sinks_.data() : nullptr;
    args.y = y.data();
    args.step_rows = step_rows.data();
    args.block_table = cache_.table();
    args.counts = &counts;
    args.workspace = workspace.data();
    args.heads = case_.heads;
    args.kv_heads = case_.kv_heads;
    args.head_dim = case_.head_dim;
    args.window = case_.window;
    args.scale = 1.0F / std::sqrt(static_cast<float>(case_.head_dim));
    args.softcap = case_.softcap;
    Pool pool(threads);
    pool.run(isa.find("attention"), &args);
    EXPECT_TRUE(y.intact()) << "wrote outside y";
    return {y.values().begin(), y.values().end()};
  }

  std::vector<double> want(std::size_t sequence, int position, int head) {
    const auto dim = static_cast<std::size_t>(case_.head_dim);
    const History& seen = history(sequence, head / (case_.heads / case_.kv_heads));
    const float* q = &q_[sequence][static_cast<std::size_t>(position * case_.heads + head) * dim];
    const oracle::AttentionRule rule{1.0 / std::sqrt(case_.head_dim), case_.softcap, case_.window,
                                     case_.sinks ? &sinks_[static_cast<std::size_t>(head)] : nullptr};
    return oracle::attention({q, q + dim}, seen.keys, seen.values, position, rule);
  }

  std::size_t row_floats() const { return static_cast<std::size_t>(case_.heads * case_.head_dim); }

 private:
  /// Keys and values of a sequence and kv head, by position.
  struct History {
    std::vector<std::vector<double>> keys, values;
  };
  const History& history(std::size_t sequence, int kv_head) {
    History& all = histories_[{sequence, kv_head}];
    for (int p = static_cast<int>(all.keys.size()); p < lengths_[sequence]; ++p) {
      all.keys.emplace_back();
      all.values.emplace_back();
      for (int d = 0; d < case_.head_dim; ++d) {
        all.keys.back().push_back(f16_to_f32(cache_.k()[cache_.k_at(sequence, p, kv_head, d)]));
        all.values.back().push_back(f16_to_f32(cache_.v()[cache_.v_at(sequence, p, kv_head, d)]));
      }
    }
    return all;
  }

  Case case_;
  std::vector<int> lengths_;
  Random random_;
  PagedCache cache_;
  std::vector<std::vector<float>> q_;
  std::vector<float> sinks_;
  std::map<std::pair<std::size_t, int>, History> histories_;
};

class AttentionTest : public testing::TestWithParam<Case> {};

const std::vector<int> kLengths = {1, 17, 300, 600};

TEST_P(AttentionTest, MatchesOracle) {
  const Case c = GetParam();
  Problem problem(c, kLengths);
  const std::vector<std::vector<Row>> steps = {
      {{3, 599, 1}},                                      // one decode row, split over tiles
      {{0, 0, 1}, {1, 16, 1}, {2, 255, 1}, {3, 256, 1}},  // decode at tile borders
      {{2, 0, 300}},                                      // a prompt
      {{3, 500, 90}, {1, 3, 1}, {0, 0, 1}},               // a chunk with decode rows
  };
  for (const Isa& isa : isas()) {
    for (const auto& rows : steps) {
      const std::vector<float> y = problem.run(isa, 2, rows);
      std::size_t t = 0;
      for (const Row& row : rows) {
        for (int i = 0; i < row.tokens; ++i, ++t) {
          if (row.tokens > 50 && i % 11 != 0 && i + 1 != row.tokens) continue;
          for (int h = 0; h < c.heads; ++h) {
            const std::vector<double> want = problem.want(row.sequence, row.position + i, h);
            const float* got = &y[t * problem.row_floats() + static_cast<std::size_t>(h * c.head_dim)];
            for (std::size_t d = 0; d < want.size(); ++d)
              ASSERT_NEAR(got[d], want[d], 2e-5 * c.magnitude * c.magnitude)
                  << isa.name << " sequence " << row.sequence << " position " << row.position + i << " head "
                  << h;
          }
        }
      }
    }
  }
}

TEST_P(AttentionTest, DecodePrefillChunksAndThreadsGiveTheSameBits) {  // D5
  const Case c = GetParam();
  Problem problem(c, kLengths);
  const std::size_t width = problem.row_floats();
  for (const Isa& isa : isas()) {
    const std::vector<float> whole = problem.run(isa, 1, {{3, 0, 600}});
    const auto expect_part = [&](int threads, const std::vector<Row>& rows, std::size_t at, const Row& part) {
      const std::vector<float> y = problem.run(isa, threads, rows);
      const std::size_t size = static_cast<std::size_t>(part.tokens) * width;
      EXPECT_TRUE(same_bits(std::span(y).subspan(at * width, size),
                            std::span(whole).subspan(static_cast<std::size_t>(part.position) * width, size)))
          << isa.name << " threads " << threads << " position " << part.position << " tokens " << part.tokens;
    };
    expect_part(3, {{3, 0, 600}}, 0, {3, 0, 600});
    for (const int p : {0, 15, 16, 255, 256, 511, 599}) {
      for (const int threads : {1, 2, 3}) expect_part(threads, {{3, p, 1}}, 0, {3, p, 1});
      expect_part(2, {{2, 100, 1}, {3, p, 1}, {1, 3, 1}, {0, 0, 1}}, 1, {3, p, 1});
    }
    expect_part(2, {{3, 0, 100}}, 0, {3, 0, 100});
    expect_part(2, {{1, 0, 17}, {3, 100, 263}}, 17, {3, 100, 263});
    expect_part(2, {{3, 593, 7}}, 0, {3, 593, 7});
  }
}

TEST_P(AttentionTest, ANonFiniteLaterPositionChangesNothing) {
  const Case c = GetParam();
  Problem problem(c, kLengths);
  const std::vector<Row> rows = {{2, 200, 60}};
  for (const Isa& isa : isas()) {
    const std::vector<float> want = problem.run(isa, 2, rows);
    Problem poisoned(c, kLengths);
    poisoned.cache().k()[poisoned.cache().k_at(2, 250, 0, 3)] = 0x7E00;
    poisoned.cache().v()[poisoned.cache().v_at(2, 250, 0, 3)] = 0x7C00;
    const std::vector<float> got = poisoned.run(isa, 2, rows);
    const std::size_t before = 50 * problem.row_floats();
    EXPECT_TRUE(same_bits(std::span(want).first(before), std::span(got).first(before)));
    EXPECT_FALSE(same_bits(want, got));
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, AttentionTest,
                         testing::Values(Case{9, 3, 64}, Case{4, 4, 16, 100, 0, false, 2},
                                         Case{4, 1, 256, 0, 30}, Case{2, 2, 96, 16, 5, true},
                                         Case{6, 2, 80, 300, 0, true}, Case{5, 5, 128},
                                         Case{24, 1, 32, 0, 0, true, 3}));

TEST(Attention, WorkspaceIsSmallAndGrowsWithTheContext) {
  EXPECT_EQ(ops::attention_workspace_bytes(16, 2, 9, 3, 64, 8192), 8U * 3 * 32 * 80 * 4);
  EXPECT_EQ(ops::attention_workspace_bytes(1, 64, 9, 3, 64, 256), 3U * 3 * 1 * 80 * 4);
}

}  // namespace
}  // namespace met::test
