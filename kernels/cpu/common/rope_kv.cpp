// rope_kv over a cache of f16.
#include "rope_kv.h"

MET_CPU_KERNEL(rope_kv, met::RopeKvArgs) { rope_and_store(args, ctx); }
