// The paged cache's element: f16, or f32 where the source defines MET_KV_F32 before its includes (for
// comparison with references: the cache is then no rounding seam).
#pragma once

#include "simd.h"

namespace {

#if defined(MET_KV_F32)
using KvElement = float;
inline simd::Vf load_kv(const KvElement* p) { return simd::load(p); }
inline void store_kv(KvElement* p, simd::Vf v) { simd::store(p, v); }
#else
using KvElement = std::uint16_t;
inline simd::Vf load_kv(const KvElement* p) { return simd::load_f16(p); }
inline void store_kv(KvElement* p, simd::Vf v) { simd::store_f16(p, v); }
#endif

}  // namespace
