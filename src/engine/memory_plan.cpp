#include "engine/memory_plan.h"

#include <algorithm>
#include <cstdio>

namespace met::engine {

namespace {

constexpr std::size_t kGuardBytes = std::size_t{64}
                                    << 20U;  // what a system needs beside us before it starts to swap

std::string mib(std::size_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f MiB", static_cast<double>(bytes) / (1U << 20U));
  return text;
}

std::int64_t blocks_of_sequence(std::int64_t tokens, int block_tokens) { return tokens / block_tokens + 1; }

std::unexpected<Error> too_small(const MemoryInputs& in, std::size_t budget, std::int64_t seq_len) {
  const std::size_t kv =
      static_cast<std::size_t>(blocks_of_sequence(seq_len, in.block_tokens) + 1) * in.block;
  struct Term {
    std::size_t bytes;
    const char* name;
    const char* flag;
  };
  const Term terms[] = {{in.host_memory ? in.swap : 0, "the swap pool", "--swap-space-gb"},
                        {in.weights, "the weights", "a smaller model or quantization"},
                        {in.arena, "the step buffers", "--max-prefill-tokens"},
                        {kv, "the KV pool of one sequence", "--max-seq-len"}};
  const Term& largest = *std::ranges::max_element(terms, {}, &Term::bytes);
  return fail(ErrorCode::kResourceExhausted,
              "memory does not suffice: " + mib(budget) + " are free to use, weights take " +
                  mib(in.weights) + ", step buffers " + mib(in.arena) + ", KV of one sequence of " +
                  std::to_string(seq_len) + " tokens " + mib(kv) + "; the largest is " + largest.name +
                  ": use " + largest.flag,
              "memory");
}

}  // namespace

Result<MemoryPlan> plan_memory(const MemoryInputs& in) {
  MemoryPlan plan;
  plan.budget =
      in.host_memory
          ? in.free
          : std::min(static_cast<std::size_t>(in.utilization * static_cast<double>(in.total)), in.free);
  const bool automatic = in.max_seq_len == 0;
  plan.max_seq_len = automatic ? in.model_positions : in.max_seq_len;
  // The pool of preempted sequences is host memory: on the CPU it competes with the KV pool.
  const std::size_t fixed = in.weights + in.arena + kGuardBytes + (in.host_memory ? in.swap : 0);
  if (plan.budget <= fixed) return too_small(in, plan.budget, plan.max_seq_len);

  const auto batch_blocks = [&] {
    return static_cast<std::size_t>(blocks_of_sequence(plan.max_seq_len, in.block_tokens)) *
               static_cast<std::size_t>(in.max_batch_size) +
           1;
  };
  std::size_t kv = plan.budget - fixed;
  const char* formula = "budget - weights - buffers - guard";
  if (in.kv_bytes != 0) {
    if (in.kv_bytes > kv)
      return fail(ErrorCode::kResourceExhausted,
                  mib(in.kv_bytes) + " are asked for, " + mib(kv) + " are free beside weights and buffers",
                  "--kv-cache-gb");
    kv = in.kv_bytes;
    formula = "--kv-cache-gb";
  } else if (in.host_memory) {
    kv = std::min({kv, batch_blocks() * in.block, plan.budget / 4});
    formula = "min(max_seq_len * max_batch_size, 25 % of free memory)";
  }
  plan.blocks = static_cast<std::int64_t>(kv / in.block);
  const std::int64_t needed = blocks_of_sequence(plan.max_seq_len, in.block_tokens) + 1;  // + the null block
  if (plan.blocks < needed) {
    const std::int64_t fits = (plan.blocks - 2) * in.block_tokens;
    if ((!automatic || fits < in.block_tokens) && in.kv_bytes != 0)
      return fail(ErrorCode::kResourceExhausted,
                  "the pool holds " + std::to_string(plan.blocks) + " blocks, one sequence of " +
                      std::to_string(plan.max_seq_len) + " tokens needs " + std::to_string(needed) +
                      ": raise it, or lower --max-seq-len",
                  "--kv-cache-gb");
    if (!automatic || fits < in.block_tokens) return too_small(in, plan.budget, plan.max_seq_len);
    plan.max_seq_len = fits;
    plan.seq_len_lowered = true;
  }
  plan.terms = {{"budget", plan.budget, in.host_memory ? "free memory" : "min(utilization * total, free)"},
                {"weights", in.weights, "packed tensors"},
                {"step buffers", in.arena, "tokens, rows and logits of the largest step"},
                {"guard", kGuardBytes, "left to the system"},
                {"KV pool", static_cast<std::size_t>(plan.blocks) * in.block, formula}};
  if (in.swap > 0) plan.terms.push_back({"swap pool", in.swap, "--swap-space-gb, in host memory"});
  return plan;
}

std::string describe(const MemoryPlan& plan) {
  std::string text;
  char line[160];
  for (const MemoryTerm& term : plan.terms) {
    std::snprintf(line, sizeof line, "%-14s %14s   %s\n", term.name.c_str(), mib(term.bytes).c_str(),
                  term.formula.c_str());
    text += line;
  }
  std::snprintf(line, sizeof line, "blocks         %14lld   %s%lld tokens a sequence\n",
                static_cast<long long>(plan.blocks), plan.seq_len_lowered ? "lowered to " : "",
                static_cast<long long>(plan.max_seq_len));
  return text + line;
}

}  // namespace met::engine
