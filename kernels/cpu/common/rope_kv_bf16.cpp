// rope_kv over a cache of bf16.
#define MET_KV_BF16
#include "rope_kv.h"

MET_CPU_KERNEL(rope_kv_bf16, met::RopeKvArgs) { rope_and_store(args, ctx); }
