// The part of the CUDA driver interface that we use, opened with dlopen: the build needs no CUDA toolkit, and
// one binary runs with or without a GPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/error.h"

namespace met::gpu::cuda {

// Types as the driver's binary interface fixes them.
using CuResult = int;
using CuDevice = int;
using CuAddress = unsigned long long;
using CuContext = struct CuContextOpaque*;
using CuModule = struct CuModuleOpaque*;
using CuFunction = struct CuFunctionOpaque*;
using CuStream = struct CuStreamOpaque*;
using CuEvent = struct CuEventOpaque*;
using CuGraph = struct CuGraphOpaque*;
using CuGraphExec = struct CuGraphExecOpaque*;

inline constexpr CuResult kSuccess = 0;
inline constexpr CuResult kOutOfMemory = 2;
inline constexpr CuResult kNoDevice = 100;
inline constexpr CuResult kInvalidImage = 200;
inline constexpr CuResult kNoBinaryForGpu = 209;
inline constexpr CuResult kNotFound = 500;
inline constexpr CuResult kNotReady = 600;

/// Attributes of a device that we ask for.
enum class CuAttribute : int {
  kMultiprocessors = 16,
  kIntegrated = 18,
  kL2Bytes = 38,
  kComputeMajor = 75,
  kComputeMinor = 76,
  kSharedMemoryOptIn = 97,
};

struct CuCopy2D {
  std::size_t from_x, from_y;
  int from_type;
  const void* from_host;
  CuAddress from_device;
  void* from_array;
  std::size_t from_pitch;
  std::size_t to_x, to_y;
  int to_type;
  void* to_host;
  CuAddress to_device;
  void* to_array;
  std::size_t to_pitch;
  std::size_t width_bytes, height;
};
inline constexpr int kMemoryDevice = 2;

struct CuLaunchAttribute {
  int id;
  char pad[4];
  union {
    char bytes[64];
    struct {
      unsigned x, y, z;
    } cluster;
    int allowed;
  } value;
};
inline constexpr int kAttributeCluster = 4;
inline constexpr int kAttributeDependentLaunch = 6;

struct CuLaunchConfig {
  unsigned grid_x, grid_y, grid_z;
  unsigned block_x, block_y, block_z;
  unsigned shared_bytes;
  CuStream stream;
  CuLaunchAttribute* attributes;
  unsigned attribute_count;
};

inline constexpr unsigned kStreamNonBlocking = 1;
inline constexpr unsigned kEventDefault = 0;
inline constexpr unsigned kEventNoTiming = 2;
inline constexpr unsigned kHostMapped = 2;
inline constexpr int kCaptureRelaxed = 2;
inline constexpr int kFunctionSharedBytes = 1;
inline constexpr int kFunctionMaxDynamicShared = 8;

/// name, symbol in the library, parameters
#define MET_CUDA_FUNCTIONS(X)                                                                                \
  X(init, cuInit, (unsigned flags))                                                                          \
  X(driver_version, cuDriverGetVersion, (int* version))                                                      \
  X(error_name, cuGetErrorName, (CuResult result, const char** text))                                        \
  X(error_string, cuGetErrorString, (CuResult result, const char** text))                                    \
  X(device_count, cuDeviceGetCount, (int* count))                                                            \
  X(device_get, cuDeviceGet, (CuDevice * device, int ordinal))                                               \
  X(device_name, cuDeviceGetName, (char* name, int length, CuDevice device))                                 \
  X(device_attribute, cuDeviceGetAttribute, (int* value, CuAttribute attribute, CuDevice device))            \
  X(context_retain, cuDevicePrimaryCtxRetain, (CuContext * context, CuDevice device))                        \
  X(context_release, cuDevicePrimaryCtxRelease_v2, (CuDevice device))                                        \
  X(context_set, cuCtxSetCurrent, (CuContext context))                                                       \
  X(memory_info, cuMemGetInfo_v2, (std::size_t* free, std::size_t* total))                                   \
  X(memory_alloc, cuMemAlloc_v2, (CuAddress * address, std::size_t bytes))                                   \
  X(memory_free, cuMemFree_v2, (CuAddress address))                                                          \
  X(host_alloc, cuMemHostAlloc, (void** host, std::size_t bytes, unsigned flags))                            \
  X(host_free, cuMemFreeHost, (void* host))                                                                  \
  X(host_address, cuMemHostGetDevicePointer_v2, (CuAddress * address, void* host, unsigned flags))           \
  X(copy_htod, cuMemcpyHtoD_v2, (CuAddress to, const void* from, std::size_t bytes))                         \
  X(copy_dtoh, cuMemcpyDtoH_v2, (void* to, CuAddress from, std::size_t bytes))                               \
  X(copy_htod_async, cuMemcpyHtoDAsync_v2, (CuAddress to, const void* from, std::size_t bytes, CuStream s))  \
  X(copy_dtoh_async, cuMemcpyDtoHAsync_v2, (void* to, CuAddress from, std::size_t bytes, CuStream s))        \
  X(copy_dtod_async, cuMemcpyDtoDAsync_v2, (CuAddress to, CuAddress from, std::size_t bytes, CuStream s))    \
  X(copy_2d_async, cuMemcpy2DAsync_v2, (const CuCopy2D* copy, CuStream s))                                   \
  X(fill, cuMemsetD8_v2, (CuAddress to, unsigned char byte, std::size_t bytes))                              \
  X(fill_async, cuMemsetD8Async, (CuAddress to, unsigned char byte, std::size_t bytes, CuStream s))          \
  X(stream_create, cuStreamCreate, (CuStream * stream, unsigned flags))                                      \
  X(stream_destroy, cuStreamDestroy_v2, (CuStream stream))                                                   \
  X(stream_synchronize, cuStreamSynchronize, (CuStream stream))                                              \
  X(stream_wait, cuStreamWaitEvent, (CuStream stream, CuEvent event, unsigned flags))                        \
  X(capture_begin, cuStreamBeginCapture_v2, (CuStream stream, int mode))                                     \
  X(capture_end, cuStreamEndCapture, (CuStream stream, CuGraph * graph))                                     \
  X(capture_status, cuStreamIsCapturing, (CuStream stream, int* status))                                     \
  X(event_create, cuEventCreate, (CuEvent * event, unsigned flags))                                          \
  X(event_destroy, cuEventDestroy_v2, (CuEvent event))                                                       \
  X(event_record, cuEventRecord, (CuEvent event, CuStream stream))                                           \
  X(event_query, cuEventQuery, (CuEvent event))                                                              \
  X(event_synchronize, cuEventSynchronize, (CuEvent event))                                                  \
  X(event_elapsed, cuEventElapsedTime, (float* ms, CuEvent begin, CuEvent end))                              \
  X(module_load, cuModuleLoadData, (CuModule * module, const void* image))                                   \
  X(module_unload, cuModuleUnload, (CuModule module))                                                        \
  X(module_function, cuModuleGetFunction, (CuFunction * function, CuModule module, const char* name))        \
  X(function_attribute, cuFuncGetAttribute, (int* value, int attribute, CuFunction function))                \
  X(function_set, cuFuncSetAttribute, (CuFunction function, int attribute, int value))                       \
  X(launch, cuLaunchKernelEx, (const CuLaunchConfig* config, CuFunction f, void** parameters, void** extra)) \
  X(tensor_map_encode, cuTensorMapEncodeTiled,                                                               \
    (void* map, int element, unsigned rank, CuAddress base, const std::uint64_t* extents,                    \
     const std::uint64_t* strides, const std::uint32_t* box, const std::uint32_t* steps, int interleave,     \
     int swizzle, int promotion, int fill))                                                                  \
  X(graph_instantiate, cuGraphInstantiateWithFlags, (CuGraphExec * exec, CuGraph graph, unsigned long long)) \
  X(graph_upload, cuGraphUpload, (CuGraphExec exec, CuStream stream))                                        \
  X(graph_launch, cuGraphLaunch, (CuGraphExec exec, CuStream stream))                                        \
  X(graph_destroy, cuGraphDestroy, (CuGraph graph))                                                          \
  X(graph_exec_destroy, cuGraphExecDestroy, (CuGraphExec exec))

/// The functions of libcuda.so.1, resolved once for the process.
struct Driver {
#define MET_CUDA_MEMBER(name, symbol, parameters) CuResult(*name) parameters = nullptr;
  MET_CUDA_FUNCTIONS(MET_CUDA_MEMBER)
#undef MET_CUDA_MEMBER
  int version = 0;  ///< 13000 is CUDA 13.0

  /// An error with the driver's name and sentence for `result`; nothing for success. `what` says what was
  /// done.
  Result<> check(CuResult result, std::string_view what) const {
    if (result == kSuccess) [[likely]]
      return {};
    return std::unexpected(error(result, what));
  }
  Error error(CuResult result, std::string_view what) const;
};

/// Opens and initialises the driver, once for the process.
///
/// Errors   kUnavailable: "no CUDA driver" where libcuda.so.1 or a device is missing, "CUDA driver too old"
/// where a function is.
Result<const Driver*> open_driver();

/// The code of a driver error: kDevice for those after which the context is lost.
ErrorCode code_of(CuResult result);

struct Capability {
  int major = 0;
  int minor = 0;
  int devices = 0;  ///< how many there are
};

/// What a device can run, without making it current.
///
/// Errors   those of open_driver; kInvalidArgument for an ordinal that does not exist.
Result<Capability> probe(int ordinal);

}  // namespace met::gpu::cuda
