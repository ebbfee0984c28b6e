// One server in this process, over a paced engine, with the text side of a GGUF file.
#pragma once

#include <pthread.h>

#include <ctime>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "api/model_text.h"
#include "benchmarks/serving/server/engine.h"
#include "server/server.h"

namespace met::bench {

/// Tokenizer of the file, template of `template_path`. Ends the process where either cannot be read.
std::shared_ptr<const api::ModelText> load_text(const std::string& gguf, const std::string& template_path);

struct HostOptions {
  std::chrono::microseconds step{0};
  int max_batch_size = 200;
  std::vector<std::string> flags;
};

class Host {
 public:
  Host(std::shared_ptr<const api::ModelText> text, const HostOptions& options);
  ~Host();

  int port() const { return server_->port(); }
  StampedClient& client() { return *client_; }
  /// CPU time of the first loop: all of the server's work on sockets with --io-threads 1.
  double loop_cpu_s() const;

 private:
  SteadyClock clock_;
  PacedDevice device_;
  std::unique_ptr<scheduler::Client> engine_;
  std::unique_ptr<StampedClient> client_;
  std::unique_ptr<server::Server> server_;
  std::jthread loop_;
};

}  // namespace met::bench
