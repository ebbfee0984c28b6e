// Device addresses as the typed pointers that kernel arguments hold.
#pragma once

#include "gpu/device_memory.h"

namespace met::layers::cuda {

template <class T>
T* at_device(gpu::DevicePtr p, std::size_t bytes = 0) {
  return p ? reinterpret_cast<T*>(p.value + bytes) : nullptr;
}

template <class T>
T* at_device(const gpu::DeviceMemory& memory) {
  return at_device<T>(memory.data());
}

}  // namespace met::layers::cuda
