#include "kernelc/stage.h"

#include <cstdio>
#include <fstream>

#include "closure/includes.h"
#include "closure/schema.h"
#include "core/sha256.h"

namespace met::kernelc {
namespace {

namespace fs = std::filesystem;
using closure::Role;
using closure::Target;

std::string role_folder(const Target& target, Role role) {
  return role == Role::kCommon ? target.hardware + "/common" : target.name();
}

std::string header_folder(const Target& target) {
  Sha256 hash;
  return "target/" + hash.add(closure::target_header(*target.model_manifest)).hex().substr(0, 12);
}

}  // namespace

Result<> write_if_changed(const fs::path& path, const std::string& text) {
  if (fs::exists(path)) {
    MET_ASSIGN(const std::string old, closure::read_text(path));
    if (old == text) return {};
  }
  std::error_code error;
  fs::create_directories(path.parent_path(), error);
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out << text;
  out.close();
  return out ? Result<>() : fail(ErrorCode::kIo, "cannot be written", path.string());
}

Result<> Stager::stage_role(const closure::RoleFiles& files, const std::string& folder) const {
  std::error_code error;
  fs::create_directories(root_ / folder, error);
  for (const auto& entry : fs::directory_iterator(root_ / folder, error))
    if (entry.is_regular_file() && !files.files.contains(entry.path().filename().string()))
      fs::remove(entry.path(), error);
  for (const auto& [file, path] : files.files) {
    MET_ASSIGN(const std::string text, closure::read_text(path));
    MET_TRY(write_if_changed(root_ / folder / file, "#line 1 \"" + tree_.label(path) + "\"\n" + text));
  }
  return {};
}

Result<> Stager::stage(const Target& target) const {
  for (const Role role : {Role::kCommon, Role::kLeaf})
    MET_TRY(stage_role(target.files(role), role_folder(target, role)));
  MET_TRY(write_if_changed(root_ / header_folder(target) / "target.h",
                           closure::target_header(*target.model_manifest)));
  const fs::path shared = tree_.root() / "include";
  if (!fs::is_directory(shared)) return {};
  for (const auto& entry : fs::recursive_directory_iterator(shared)) {
    if (!entry.is_regular_file()) continue;
    MET_ASSIGN(const std::string text, closure::read_text(entry.path()));
    MET_TRY(write_if_changed(root_ / "include" / entry.path().lexically_relative(shared), text));
  }
  return {};
}

Stage Stager::paths(const Target& target, const closure::Source& source) const {
  Stage out{role_folder(target, source.role) + "/" + source.file, {header_folder(target)}};
  for (const fs::path& folder : target.files(source.role).folders) out.include.push_back(folder.string());
  out.include.push_back("include");
  if (source.role == Role::kLeaf) out.include.push_back(role_folder(target, Role::kCommon));
  return out;
}

}  // namespace met::kernelc
