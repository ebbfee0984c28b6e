// The one thread that works on an ObjectStore: what waits while a commit is flushed shares the next one.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "storage/object_store.h"

namespace met::storage {

class StoreThread {
 public:
  /// One operation, on the thread. False: what it did is undone.
  using Work = std::move_only_function<bool(ObjectStore&)>;
  /// Called on the thread once the operation is committed, or with what the file failed of.
  using Done = std::move_only_function<void(const Error*)>;

  explicit StoreThread(std::unique_ptr<ObjectStore> store);
  ~StoreThread() { stop(); }

  /// From any thread; operations run in the order of their posts.
  void post(Work work, Done done);
  /// Ends what was posted, then the thread and the store. What is posted later fails.
  void stop();

 private:
  struct Job {
    Work work;
    Done done;
    std::optional<Error> error;
  };

  void loop();
  void run(std::vector<Job>& jobs);

  std::unique_ptr<ObjectStore> store_;
  std::mutex mutex_;
  std::condition_variable posted_;
  std::vector<Job> jobs_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace met::storage
