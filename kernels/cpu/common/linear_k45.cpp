// Linear over super-blocks of 4 and 5 bits: Q4_K and Q5_K.
#include "linear.h"

MET_LINEAR_ENTRIES(q4_k, Q4_K)
MET_LINEAR_ENTRIES(q5_k, Q5_K)
