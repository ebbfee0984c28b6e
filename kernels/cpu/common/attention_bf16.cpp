// attention over a cache of bf16.
#define MET_KV_BF16
#include "attention.h"

MET_CPU_KERNEL(attention_bf16, met::AttentionArgs) { attend(args, ctx); }
