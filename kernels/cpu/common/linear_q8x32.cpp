// Linear over 8-bit blocks of 32 with f16 scales: Q8_0.
#include "linear.h"

MET_LINEAR_ENTRIES(q8_0, Q8_0)
