// rope_kv over a cache of E4M3.
#define MET_KV_E4M3
#include "rope_kv.h"

MET_CPU_KERNEL(rope_kv_e4m3, met::RopeKvArgs) { rope_and_store(args, ctx); }
