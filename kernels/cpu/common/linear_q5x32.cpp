// Linear over 5-bit blocks of 32 with f16 scales: Q5_0 and Q5_1.
#include "linear.h"

MET_LINEAR_ENTRIES(q5_0, Q5_0)
MET_LINEAR_ENTRIES(q5_1, Q5_1)
