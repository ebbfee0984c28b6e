// The background responses of this process that have not ended, by their keys.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "storage/object_store.h"

namespace met::server {

class BackgroundRun;

/// Safe from any thread.
class BackgroundRuns {
 public:
  void add(const storage::Key& key, std::weak_ptr<BackgroundRun> run) {
    const std::lock_guard lock(mutex_);
    runs_[{key.tenant, key.id}] = std::move(run);
  }
  void remove(const storage::Key& key) {
    const std::lock_guard lock(mutex_);
    runs_.erase({key.tenant, key.id});
  }
  std::shared_ptr<BackgroundRun> find(const storage::Key& key) {
    const std::lock_guard lock(mutex_);
    const auto run = runs_.find({key.tenant, key.id});
    return run == runs_.end() ? nullptr : run->second.lock();
  }

 private:
  std::mutex mutex_;
  std::map<std::pair<std::uint64_t, std::string>, std::weak_ptr<BackgroundRun>> runs_;
};

}  // namespace met::server
