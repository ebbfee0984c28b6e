// What the store adds to a request: from the post of an operation to its acknowledgement, in memory and in a file.
//
// usage: met_bench_store DIRECTORY [CLIENTS]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "storage/store_thread.h"

namespace {

using namespace met::storage;
using Steady = std::chrono::steady_clock;
constexpr int kOperations = 2000;  // of each client

double microseconds(Steady::duration d) { return std::chrono::duration<double, std::micro>(d).count(); }

void wait_for(StoreThread& thread, StoreThread::Work work) {
  std::promise<void> done;
  thread.post(std::move(work), [&](const met::Error* error) {
    if (error != nullptr) std::fprintf(stderr, "%s\n", error->message.c_str());
    done.set_value();
  });
  done.get_future().get();
}

/// Each client's operations one after the other; the times of all.
std::vector<double> times(StoreThread& thread, int clients, bool writes) {
  std::vector<std::vector<double>> of(static_cast<std::size_t>(clients));
  {
    std::vector<std::jthread> threads;
    for (int c = 0; c < clients; ++c)
      threads.emplace_back([&, c] {
        const std::vector<NewItem> items = {{"msg_1", std::string(500, 'q')},
                                            {"msg_2", std::string(2000, 'a')}};
        for (int i = 0; i < kOperations; ++i) {
          const Key key{.tenant = static_cast<std::uint64_t>(c), .id = std::to_string(i)};
          const auto begin = Steady::now();
          wait_for(thread, [&](ObjectStore& store) {
            if (!writes) return store.get(key).has_value();
            const ItemNumber tip = store.append(key.tenant, 0, items);
            return store.put(key, {.tip = tip, .body = std::string(3000, 'o')}).has_value();
          });
          of[static_cast<std::size_t>(c)].push_back(microseconds(Steady::now() - begin));
        }
      });
  }
  std::vector<double> out;
  for (const auto& t : of) out.insert(out.end(), t.begin(), t.end());
  std::ranges::sort(out);
  return out;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return std::fprintf(stderr, "usage: met_bench_store DIRECTORY [CLIENTS]\n"), 2;
  const int clients = argc > 2 ? std::max(1, std::atoi(argv[2])) : 1;
  const met::UnixClock clock;
  for (const std::string& directory : {std::string(), std::string(argv[1])}) {
    auto store =
        ObjectStore::open(directory, {.entries_max = {1'000'000, 1, 1}, .bytes_max = 1LL << 32}, clock);
    if (!store) return std::fprintf(stderr, "%s\n", store.error().message.c_str()), 1;
    StoreThread thread(std::move(*store));
    for (const bool writes : {true, false}) {
      const std::vector<double> t = times(thread, clients, writes);
      std::printf("%-6s %-5s clients %d  p50 %7.0f us  p99 %7.0f us  max %7.0f us\n",
                  directory.empty() ? "memory" : "file", writes ? "write" : "read", clients, t[t.size() / 2],
                  t[t.size() * 99 / 100], t.back());
    }
  }
  return 0;
}
