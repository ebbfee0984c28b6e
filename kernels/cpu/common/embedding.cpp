// Rows of a packed table, dequantised: a tied head is stored once and read both ways.
#include "floats.h"
#include "met/cpu_kernel.h"
#include "met/ops.h"

namespace {

template <class F>
struct Quantised {
  static void row(const std::uint8_t* table, std::int64_t id, std::int64_t dim, float* y) {
    const std::uint8_t* tile = table + static_cast<std::size_t>(id / packed::kColumns) * F::tile_bytes(dim);
    for (std::int64_t b = 0; b < dim / packed::kBlock; ++b)
      F::column(F::at(tile, b), static_cast<int>(id % packed::kColumns), y + b * packed::kBlock);
  }
};

template <class T>
struct Plain {
  using Element = typename T::Element;
  static void row(const std::uint8_t* table, std::int64_t id, std::int64_t dim, float* y) {
    const auto in_pair = static_cast<int>(id % packed::kPairColumns);
    const Element* p = reinterpret_cast<const Element*>(table) +
                       id / packed::kPairColumns * packed::kPairColumns * dim +
                       T::place(in_pair / packed::kColumns, in_pair % packed::kColumns);
    for (std::int64_t i = 0; i < dim; ++i) {
      alignas(64) Element padded[simd::kLanes] = {p[i * packed::kPairColumns]};
      alignas(64) float values[simd::kLanes];
      simd::store(values, T::widen(padded));
      y[i] = values[0];
    }
  }
};

template <class Table>
void embed(const met::EmbeddingArgs& args, const MetCpuContext* ctx) {
  const std::int64_t tokens = *args.tokens;
  const auto* table = static_cast<const std::uint8_t*>(args.table);
  for (std::int64_t t = ctx->thread; t < tokens; t += ctx->threads) {
    const std::int64_t id = args.ids[t];
    float* y = args.y + t * args.dim;
    if (id < 0 || id >= args.vocabulary) {
      std::memset(y, 0, static_cast<std::size_t>(args.dim) * sizeof(float));
      continue;
    }
    Table::row(table, id, args.dim, y);
    if (args.scale != 1.0F)
      for (std::int64_t i = 0; i < args.dim; ++i) y[i] *= args.scale;
  }
}

}  // namespace

MET_CPU_KERNEL(embedding_f32, met::EmbeddingArgs) { embed<Plain<packed::F32>>(args, ctx); }
MET_CPU_KERNEL(embedding_f16, met::EmbeddingArgs) { embed<Plain<packed::F16>>(args, ctx); }
MET_CPU_KERNEL(embedding_bf16, met::EmbeddingArgs) { embed<Plain<packed::BF16>>(args, ctx); }
MET_CPU_KERNEL(embedding_q4_0, met::EmbeddingArgs) { embed<Quantised<packed::Q4_0>>(args, ctx); }
MET_CPU_KERNEL(embedding_q4_1, met::EmbeddingArgs) { embed<Quantised<packed::Q4_1>>(args, ctx); }
MET_CPU_KERNEL(embedding_q8_0, met::EmbeddingArgs) { embed<Quantised<packed::Q8_0>>(args, ctx); }
MET_CPU_KERNEL(embedding_q5_0, met::EmbeddingArgs) { embed<Quantised<packed::Q5_0>>(args, ctx); }
MET_CPU_KERNEL(embedding_q5_1, met::EmbeddingArgs) { embed<Quantised<packed::Q5_1>>(args, ctx); }
MET_CPU_KERNEL(embedding_q2_k, met::EmbeddingArgs) { embed<Quantised<packed::Q2_K>>(args, ctx); }
MET_CPU_KERNEL(embedding_q3_k, met::EmbeddingArgs) { embed<Quantised<packed::Q3_K>>(args, ctx); }
MET_CPU_KERNEL(embedding_q4_k, met::EmbeddingArgs) { embed<Quantised<packed::Q4_K>>(args, ctx); }
MET_CPU_KERNEL(embedding_q5_k, met::EmbeddingArgs) { embed<Quantised<packed::Q5_K>>(args, ctx); }
MET_CPU_KERNEL(embedding_q6_k, met::EmbeddingArgs) { embed<Quantised<packed::Q6_K>>(args, ctx); }
MET_CPU_KERNEL(embedding_iq4_nl, met::EmbeddingArgs) { embed<Quantised<packed::IQ4_NL>>(args, ctx); }
MET_CPU_KERNEL(embedding_iq4_xs, met::EmbeddingArgs) { embed<Quantised<packed::IQ4_XS>>(args, ctx); }
MET_CPU_KERNEL(embedding_mxfp4, met::EmbeddingArgs) { embed<Quantised<packed::MXFP4>>(args, ctx); }
