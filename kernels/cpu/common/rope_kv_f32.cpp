// rope_kv over a cache of f32.
#define MET_KV_F32
#include "rope_kv.h"

MET_CPU_KERNEL(rope_kv_f32, met::RopeKvArgs) { rope_and_store(args, ctx); }
