// Every setting of `met` is one row of one table: name, type, range, default, help, and after reading the
// place it came from. Command line beats file beats environment beats the hardware's defaults.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/error.h"
#include "core/json.h"

namespace met::config {

enum class Origin : std::uint8_t { kDefault, kHardware, kEnvironment, kFile, kFlag };
std::string_view name(Origin origin);

/// The values, read once at start. A member without a value (std::nullopt) is `auto`: the part that uses it
/// decides and says what it took. Members stand in the table's order.
struct Settings {
  // model
  std::string model;  ///< the positional argument: path, .gguf file or Hugging Face id
  std::string model_from_path;
  std::string model_name;
  std::string cache_dir;
  std::string load_format = "auto";
  std::string quantization = "none";
  std::string kernel_target;
  std::string chat_template;
  std::string default_chat_template_kwargs;
  bool disable_template_overrides = false;
  std::string tool_call_parser = "auto";
  std::string reasoning_parser = "auto";
  bool disable_thinking = false;
  std::optional<std::int64_t> max_thinking_budget;
  // device and memory
  std::string device = "auto";
  std::int64_t gpu_ordinal = 0;
  std::optional<std::int64_t> threads;
  std::string cpu_isa = "auto";
  std::string cpu_activations = "auto";
  std::string repack_cache = "off";
  double gpu_memory_utilization = 0.90;
  std::optional<double> kv_cache_gb;
  std::string kv_cache_dtype = "auto";
  std::string kv_high_precision_layers = "0";
  double swap_space_gb = 0;
  std::string swap_dir;
  double swap_disk_gb = 16;
  std::int64_t block_size = 16;
  // engine
  std::optional<std::int64_t> max_seq_len;
  std::int64_t max_num_seqs = 128;
  std::optional<std::int64_t> max_batch_size;
  std::optional<std::int64_t> max_prefill_tokens;
  std::optional<std::int64_t> mixed_prefill_tokens;
  std::string scheduler = "fifo";
  std::string scheduler_config = "auto";
  std::int64_t tbt_deadline_ms = 100;
  std::int64_t kv_admit_watermark = 512;
  std::string prefill_varlen_batch = "auto";
  std::string prefill_codispatch = "auto";
  std::string prefill_first_chunk = "auto";
  bool no_prefix_caching = false;
  std::int64_t ssm_cache_slots = 16;
  std::int64_t ssm_checkpoint_interval = 256;
  std::int64_t marconi_min_tokens = 256;
  bool no_ssm_tail_midchunk = false;
  std::string ssm_tail_checkpoint = "auto";
  bool hermetic = false;
  bool batch_invariant = false;
  bool no_graphs = false;
  double step_timeout_s = 60;
  double request_timeout = 300;
  double auto_compact = 0;
  bool detect_refusals = false;
  // server
  std::string bind = "127.0.0.1";
  std::int64_t port = 8888;
  std::string tls_cert;
  std::string tls_key;
  bool require_auth = false;
  std::vector<std::string> auth_token;
  std::string auth_tokens_file;
  std::int64_t rate_limit_rpm = 0;
  std::int64_t rate_limit_tpm = 0;
  std::int64_t rate_limit_burst_rpm = 0;
  std::int64_t rate_limit_burst_tpm = 0;
  std::vector<std::string> cors_origin;
  bool no_ui = false;
  std::int64_t io_threads = 1;
  std::int64_t text_threads = 2;
  std::int64_t max_connections = 4096;
  std::int64_t max_body_bytes = 32 << 20;
  double header_timeout_s = 30;
  double body_timeout_s = 300;
  std::int64_t body_min_rate = 240;
  double idle_timeout_s = 75;
  double sse_keepalive_s = 15;
  double shutdown_timeout = 15;
  std::string dump;
  std::int64_t dump_max_bytes = 1 << 30;
  std::string store_dir;
  std::int64_t store_max_entries = 10'000;
  std::int64_t conversation_max_entries = 10'000;
  std::int64_t store_max_bytes = 512 << 20;
  std::int64_t store_ttl_s = 86'400;
  // process
  std::string config_file;
  std::string log_level = "info";
  bool check_kernels = false;
  bool allow_unresolved_kernels = false;
  bool dry_run = false;
  bool print_config = false;

  /// Where each value came from, by row of the table. Filled by `read_settings`.
  std::vector<Origin> origin;
};

/// One row.
struct Setting {
  using Slot = std::variant<bool Settings::*, std::int64_t Settings::*, double Settings::*,
                            std::string Settings::*, std::optional<std::int64_t> Settings::*,
                            std::optional<double> Settings::*, std::vector<std::string> Settings::*>;
  std::string_view name;  ///< without dashes: "max-seq-len"; the TOML key is the same
  Slot slot;
  std::string_view help;
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  std::string_view choices;  ///< "a|b|c", or empty
  std::string_view alias;    ///< a second spelling, or empty
  /// The METRALE_* variable that is its fallback, or empty. A switch is turned on by 1 or true; one whose name begins with no-
  /// by 0 or false, since the variable names what it turns off.
  std::string_view environment;
  bool secret = false;  ///< never printed
};

/// The table, in the order in which help and documents show it. The model is not in it: it is the positional
/// argument.
std::span<const Setting> settings_table();

/// What a reader of variables gives: the value of a METRALE_* name, or nothing. Only
/// src/config/environment.cpp reads the process's environment.
using EnvironmentReader = std::function<std::optional<std::string>(std::string_view)>;

/// Reads flags (`--name value`, `--name=value`, presence alone for switches, one MODEL), then the file of
/// `--config`, then the environment for what is still unset. Returns every violation, not only the first.
std::expected<Settings, std::vector<Error>> read_settings(std::span<const std::string> arguments,
                                                          const EnvironmentReader& environment);

/// Sets one value from text as if from `origin`; for hardware defaults and tests. A value that came from a
/// stronger origin stays.
Result<void> set_setting(Settings& settings, std::string_view setting_name, std::string_view value,
                         Origin origin);

/// Where the value of a setting of the table came from.
Origin origin_of(const Settings& settings, std::string_view setting_name);

/// [{"name", "value", "default", "origin", "type"}, …]; secrets show how many values there are, never which.
json::Value describe_settings(const Settings& settings);

/// `--help` of a command: usage line, then one line a setting.
std::string settings_help(std::string_view usage);

/// docs/flags.md.
std::string settings_markdown();

}  // namespace met::config
