#include "closure/includes.h"

#include <algorithm>
#include <set>

#include "closure/entries.h"
#include "closure/schema.h"

namespace met::closure {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kBlank = " \t";

/// Name in an include directive's rest of line; empty: a macro.
std::string included_name(std::string_view rest) {
  rest.remove_prefix(std::min(rest.find_first_not_of(kBlank), rest.size()));
  if (rest.empty() || (rest.front() != '"' && rest.front() != '<')) return {};
  const auto end = rest.find(rest.front() == '"' ? '"' : '>', 1);
  return end == std::string_view::npos ? std::string() : std::string(rest.substr(1, end - 1));
}

/// Names included by `text`; an empty one stands for a macro.
std::vector<std::string> includes_of(const std::string& text) {
  const std::string code = without_comments(text);
  std::vector<std::string> names;
  for (std::size_t begin = 0; begin < code.size();) {
    const std::size_t end = std::min(code.find('\n', begin), code.size());
    std::string_view line = std::string_view(code).substr(begin, end - begin);
    const std::size_t hash = line.find_first_not_of(kBlank);
    if (hash != std::string_view::npos && line[hash] == '#') {
      const std::size_t word = line.find_first_not_of(kBlank, hash + 1);
      if (word != std::string_view::npos && line.substr(word).starts_with("include"))
        names.push_back(
            included_name(std::string_view(text).substr(begin + word + 7, end - begin - word - 7)));
    }
    begin = end + 1;
  }
  return names;
}

class Walk {
 public:
  Walk(const KernelTree& tree, const Target& target, Role role)
      : tree_(tree), target_(target), role_(role), folders_(include_folders(tree, target, role)) {}

  Result<> visit(const fs::path& path, const RoleFiles* staged_in, Reach& out) {
    if (!seen_.insert(path).second) return {};
    MET_ASSIGN(std::string text, read_text(path));
    const auto names = includes_of(text);
    out.files.push_back({tree_.label(path), path, std::move(text)});
    for (const std::string& name : names) {
      if (name.empty()) return invalid(tree_.label(path), "includes a file named by a macro");
      if (name == "target.h") {
        out.uses_target_header = true;
        continue;
      }
      const auto [found, staged] = find(name, path, staged_in);
      if (!found.empty()) MET_TRY(visit(found, staged, out));
    }
    return {};
  }

 private:
  /// The file that an include names, and the role that it is staged in.
  std::pair<fs::path, const RoleFiles*> find(const std::string& name, const fs::path& from,
                                             const RoleFiles* staged_in) const {
    if (staged_in) {
      if (const auto it = staged_in->files.find(name); it != staged_in->files.end())
        return {it->second, staged_in};
    } else if (const fs::path beside = (from.parent_path() / name).lexically_normal();
               fs::is_regular_file(beside)) {
      return {beside, nullptr};
    }
    for (const fs::path& folder : folders_)
      if (const fs::path path = (folder / name).lexically_normal(); fs::is_regular_file(path))
        return {path, nullptr};
    if (role_ == Role::kLeaf)
      if (const auto it = target_.common.files.find(name); it != target_.common.files.end())
        return {it->second, &target_.common};
    return {};
  }

  const KernelTree& tree_;
  const Target& target_;
  Role role_;
  std::vector<fs::path> folders_;
  std::set<fs::path> seen_;
};

std::string constant_name(const std::string& key) {
  std::string out = "k";
  bool upper = true;
  for (const char c : key) {
    if (c != '_') out += upper && c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
    upper = c == '_';
  }
  return out;
}

}  // namespace

std::vector<fs::path> include_folders(const KernelTree& tree, const Target& target, Role role) {
  std::vector<fs::path> folders = target.files(role).folders;
  folders.push_back(tree.root() / "include");
  return folders;
}

Result<Reach> reach(const KernelTree& tree, const Target& target, const Source& source) {
  Reach out;
  MET_TRY(Walk(tree, target, source.role).visit(source.path, &target.files(source.role), out));
  return out;
}

std::string target_header(const ModelManifest& model) {
  constexpr std::string_view kDims[] = {"hidden",     "layers", "heads", "kv_heads", "head_dim",
                                        "rotary_dim", "ffn",    "vocab", "experts",  "experts_per_token",
                                        "expert_ffn", "window"};
  std::string out =
      "// Generated from MODEL.toml.\n#pragma once\n\nnamespace met::target {\n\n"
      "constexpr bool kExact = " +
      std::string(model.exact() ? "true" : "false") + ";\n";
  for (const std::string_view key : kDims) {
    const auto row = std::ranges::find(model.dims, key, &std::pair<std::string, std::int64_t>::first);
    const std::int64_t value = row == model.dims.end() ? 0 : row->second;
    out += "constexpr int " + constant_name(std::string(key)) + " = " + std::to_string(value) + ";\n";
  }
  for (const auto& [key, value] : model.constants)
    out += "constexpr long long " + constant_name("kernel_" + key) + " = " + std::to_string(value) + ";\n";
  return out + "\n}  // namespace met::target\n";
}

}  // namespace met::closure
