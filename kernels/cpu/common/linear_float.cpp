// Linear over F32, F16 and BF16 weights, f32 activations.
#include "floats.h"
#include "linear.h"

MET_CPU_KERNEL(linear_f32, met::LinearArgs) {
  linear::run<linear::Float<packed::Floats<packed::F32>>>(args, ctx);
}
MET_CPU_KERNEL(linear_f16, met::LinearArgs) {
  linear::run<linear::Float<packed::Floats<packed::F16>>>(args, ctx);
}
MET_CPU_KERNEL(linear_bf16, met::LinearArgs) {
  linear::run<linear::Float<packed::Floats<packed::BF16>>>(args, ctx);
}
