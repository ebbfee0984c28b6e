#include "hub/model_source.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>

namespace met::hub {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kIdBytesMax = 200;
constexpr std::size_t kRefBytesMax = 256;

bool path_exists(const fs::path& path) {
  std::error_code ec;
  return fs::exists(path, ec);
}

bool is_gguf_name(const fs::path& path) {
  std::string extension = path.extension().string();
  std::ranges::transform(extension, extension.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? c + 32 : c; });
  return extension == ".gguf";
}

bool begins_as_gguf(const fs::path& path) {
  std::ifstream stream(path, std::ios::binary);
  std::array<char, 4> magic{};
  stream.read(magic.data(), magic.size());
  return stream && std::string_view(magic.data(), magic.size()) == "GGUF";
}

std::string own_name(const fs::path& path) {
  fs::path whole = fs::absolute(path).lexically_normal();
  if (whole.filename().empty()) whole = whole.parent_path();
  return is_gguf_name(whole) ? whole.stem().string() : whole.filename().string();
}

std::vector<fs::path> gguf_files(const fs::path& directory) {
  std::vector<fs::path> files;
  std::error_code ec;
  for (fs::directory_iterator it(directory, ec), end; !ec && it != end; it.increment(ec)) {
    std::error_code ignored;
    if (is_gguf_name(it->path()) && it->is_regular_file(ignored)) files.push_back(it->path());
  }
  std::ranges::sort(files);
  return files;
}

Result<ModelSource> inspect_directory(const fs::path& directory) {
  const bool config = path_exists(directory / "config.json");
  const bool weights =
      path_exists(directory / "model.safetensors") || path_exists(directory / "model.safetensors.index.json");
  if (config && weights)
    return ModelSource{SourceKind::kSafetensors, directory.string(), own_name(directory)};
  const std::vector<fs::path> files = gguf_files(directory);
  if (files.size() == 1)
    return ModelSource{SourceKind::kGguf, files.front().string(), own_name(files.front())};
  if (config && files.empty())
    return ModelSource{SourceKind::kConfigOnly, directory.string(), own_name(directory)};
  std::string found;
  if (files.size() > 1) {
    found = "holds " + std::to_string(files.size()) + " .gguf files, name one of them: ";
    for (const fs::path& file : files)
      found += (file == files.front() ? "" : ", ") + file.filename().string();
  } else if (weights) {
    found = "has safetensors, but no config.json";
  } else {
    found = "holds no model: no config.json with safetensors and no .gguf file";
  }
  return invalid("model", "directory " + directory.string() + " " + found);
}

/// "org/name" or "name" of letters, digits, '.', '_' and '-', as the hub allows; anything else cannot name a
/// folder.
bool is_hub_id(std::string_view spec) {
  if (spec.empty() || spec.size() > kIdBytesMax || std::ranges::count(spec, '/') > 1) return false;
  const auto good_part = [](std::string_view part) {
    const auto good = [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
             c == '_' || c == '-';
    };
    return !part.empty() && part.front() != '.' && part.front() != '-' && std::ranges::all_of(part, good) &&
           part.find("..") == std::string_view::npos && part.find("--") == std::string_view::npos;
  };
  const std::size_t slash = spec.find('/');
  if (slash == std::string_view::npos) return good_part(spec);
  return good_part(spec.substr(0, slash)) && good_part(spec.substr(slash + 1));
}

std::string folder_of(std::string_view id) {
  std::string out = "models--";
  for (const char c : id) out += c == '/' ? std::string("--") : std::string(1, c);
  return out;
}

/// The snapshot of refs/main, then the others from the newest on.
std::vector<fs::path> snapshots_of(const fs::path& repository) {
  std::vector<std::pair<fs::file_time_type, fs::path>> found;
  std::error_code ec;
  for (fs::directory_iterator it(repository / "snapshots", ec), end; !ec && it != end; it.increment(ec)) {
    std::error_code ignored;
    if (it->is_directory(ignored)) found.emplace_back(it->last_write_time(ignored), it->path());
  }
  std::ranges::sort(found, std::ranges::greater{});
  std::string main(kRefBytesMax, '\0');
  std::ifstream ref(repository / "refs" / "main", std::ios::binary);
  ref.read(main.data(), static_cast<std::streamsize>(main.size()));
  main.resize(static_cast<std::size_t>(std::max<std::streamsize>(ref.gcount(), 0)));
  while (!main.empty() && (main.back() == '\n' || main.back() == '\r' || main.back() == ' ')) main.pop_back();
  std::ranges::stable_partition(found, [&](const auto& entry) { return entry.second.filename() == main; });
  std::vector<fs::path> out;
  for (auto& entry : found) out.push_back(std::move(entry.second));
  return out;
}

Result<ModelSource> find_in_caches(const std::string& id, const std::vector<std::string>& caches) {
  std::string looked;
  for (const std::string& cache : caches) {
    const fs::path repository = fs::path(cache) / folder_of(id);
    const std::vector<fs::path> snapshots = snapshots_of(repository);
    std::string reason = path_exists(repository) ? "no snapshot in it" : "absent";
    for (const fs::path& snapshot : snapshots) {
      auto source = inspect_path(snapshot.string());
      if (source && source->kind != SourceKind::kConfigOnly) {
        source->name = id;
        return source;
      }
      if (snapshot == snapshots.front())
        reason = source ? "config.json without weights" : source.error().message;
    }
    looked += "\n  " + repository.string() + " (" + reason + ")";
  }
  return fail(ErrorCode::kNotFound,
              "model \"" + id +
                  "\" is neither a path nor in a Hugging Face cache (met serve never downloads); looked at:" +
                  (looked.empty() ? " nothing, for no cache directory is known" : looked),
              "model");
}

}  // namespace

Result<ModelSource> inspect_path(const std::string& path) {
  std::error_code ec;
  const fs::file_status status = fs::status(path, ec);
  if (status.type() == fs::file_type::not_found)
    return fail(ErrorCode::kNotFound, "path " + path + " does not exist", "model");
  if (ec) return fail(ErrorCode::kIo, "cannot inspect " + path + ": " + ec.message(), "model");
  if (fs::is_directory(status)) return inspect_directory(path);
  if (!fs::is_regular_file(status)) return invalid("model", path + " is neither a file nor a directory");
  if (!is_gguf_name(path) && !begins_as_gguf(path))
    return invalid("model",
                   "file " + path + " is no GGUF file; a safetensors model is named by its directory");
  return ModelSource{SourceKind::kGguf, path, own_name(path)};
}

std::vector<std::string> cache_directories(const std::string& cache_dir,
                                           const config::Environment& environment) {
  std::vector<std::string> out;
  if (!cache_dir.empty()) out.push_back(cache_dir);
  if (const auto cache = environment.get("HF_HUB_CACHE")) out.push_back(*cache);
  if (const auto home = environment.get("HF_HOME")) out.push_back((fs::path(*home) / "hub").string());
  if (const auto cache = environment.get("XDG_CACHE_HOME")) {
    out.push_back((fs::path(*cache) / "huggingface/hub").string());
  } else if (const auto home = environment.get("HOME")) {
    out.push_back((fs::path(*home) / ".cache/huggingface/hub").string());
  }
  return out;
}

Result<ModelSource> resolve_model(const std::string& spec, const std::string& cache_dir,
                                  const std::string& from_path, const config::Environment& environment) {
  if (!from_path.empty()) {
    auto source = inspect_path(from_path);
    if (!source) return fail(source.error().code, source.error().message, "model_from_path");
    if (!spec.empty()) source->name = spec;
    return source;
  }
  if (spec.empty())
    return invalid("model", "no model is given: name a directory, a .gguf file or a Hugging Face id");
  if (path_exists(spec)) return inspect_path(spec);
  if (!is_hub_id(spec) || is_gguf_name(spec))
    return fail(ErrorCode::kNotFound, "model \"" + spec + "\" is no path that exists and no Hugging Face id",
                "model");
  return find_in_caches(spec, cache_directories(cache_dir, environment));
}

}  // namespace met::hub
