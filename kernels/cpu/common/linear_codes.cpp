// Linear over 4-bit codes that name values: IQ4_NL, IQ4_XS and MXFP4.
#include "linear.h"

MET_LINEAR_ENTRIES(iq4_nl, IQ4_NL)
MET_LINEAR_ENTRIES(iq4_xs, IQ4_XS)
MET_LINEAR_ENTRIES(mxfp4, MXFP4)
