// Linear over super-blocks of 6 bits: Q6_K.
#include "linear.h"

MET_LINEAR_ENTRIES(q6_k, Q6_K)
