// attention over a cache of f32.
#define MET_KV_F32
#include "attention.h"

MET_CPU_KERNEL(attention_f32, met::AttentionArgs) { attend(args, ctx); }
