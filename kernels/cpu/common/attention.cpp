// attention over a cache of f16.
#include "attention.h"

MET_CPU_KERNEL(attention, met::AttentionArgs) { attend(args, ctx); }
