#include "gpu/op_cache.h"

namespace met::gpu {

Result<KernelHandle> OpCache::kernel(std::string_view module, std::string_view function) {
  std::pair key{std::string(module), std::string(function)};
  if (const auto known = kernels_.find(key); known != kernels_.end()) return known->second;
  MET_ASSIGN(const KernelHandle handle, device_.kernel(module, function));
  kernels_.emplace(std::move(key), handle);
  return handle;
}

bool OpCache::first(std::string_view op, std::int64_t m, std::int64_t n, std::int64_t k) {
  auto shapes = shapes_.find(op);
  if (shapes == shapes_.end()) shapes = shapes_.try_emplace(std::string(op)).first;
  return shapes->second.insert({m, n, k}).second;
}

Result<DevicePtr> OpCache::scratch(std::size_t bytes) {
  if (bytes <= scratch_bytes_) return scratch_;
  device_.free(scratch_);
  scratch_ = {};
  scratch_bytes_ = 0;
  MET_ASSIGN(scratch_, device_.allocate(bytes, "op scratch"));
  scratch_bytes_ = bytes;
  return scratch_;
}

}  // namespace met::gpu
