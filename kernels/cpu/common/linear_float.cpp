// Linear over F32, F16 and BF16 weights, f32 activations.
#include "floats.h"
#include "linear.h"

MET_LINEAR_ENTRY(linear_f32, linear::Float<packed::Floats<packed::F32>>)
MET_LINEAR_ENTRY(linear_f16, linear::Float<packed::Floats<packed::F16>>)
MET_LINEAR_ENTRY(linear_bf16, linear::Float<packed::Floats<packed::BF16>>)
