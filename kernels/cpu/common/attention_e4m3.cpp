// attention over a cache of E4M3.
#define MET_KV_E4M3
#include "attention.h"

MET_CPU_KERNEL(attention_e4m3, met::AttentionArgs) { attend(args, ctx); }
