// attention over a cache of int8 with a scale a position and head.
#define MET_KV_I8
#include "attention.h"

MET_CPU_KERNEL(attention_i8, met::AttentionArgs) { attend(args, ctx); }
