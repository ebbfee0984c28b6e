// Linear over 4-bit blocks of 32 with f16 scales: Q4_0 and Q4_1.
#include "linear.h"

MET_LINEAR_ENTRIES(q4_0, Q4_0)
MET_LINEAR_ENTRIES(q4_1, Q4_1)
