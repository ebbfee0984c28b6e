// rope_kv over a cache of int8 with a scale a position and head.
#define MET_KV_I8
#include "rope_kv.h"

MET_CPU_KERNEL(rope_kv_i8, met::RopeKvArgs) { rope_and_store(args, ctx); }
