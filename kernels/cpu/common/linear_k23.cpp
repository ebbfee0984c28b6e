// Linear over super-blocks of 2 and 3 bits: Q2_K and Q3_K.
#include "linear.h"

MET_LINEAR_ENTRIES(q2_k, Q2_K)
MET_LINEAR_ENTRIES(q3_k, Q3_K)
