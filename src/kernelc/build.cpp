#include "kernelc/build.h"

#include <unistd.h>

#include <algorithm>

#include "closure/checks.h"
#include "closure/schema.h"
#include "core/sha256.h"
#include "kernelc/jobs.h"
#include "kernelc/plan.h"
#include "kernelc/selection.h"
#include "kernelc/stage.h"
#include "kernelc/table_writer.h"

namespace met::kernelc {
namespace {

namespace fs = std::filesystem;

Result<> check_run(const Command& command) {
  const Outcome outcome = run(command);
  if (outcome.status == 0) return {};
  return fail(ErrorCode::kInternal, to_string(command) + " failed: " + outcome.output);
}

/// Object that embeds the device images, in the cache by content.
Result<fs::path> assemble_images(const Plan& plan, const Options& options) {
  const std::string text = write_images(plan);
  if (text.empty()) return fs::path();
  const std::string key = Sha256().field(text).field(options.cxx).hex().substr(0, 40);
  const fs::path object = options.cache / ("images-" + key + ".o");
  if (fs::exists(object)) return object;
  const fs::path source = options.out / "images.s";
  MET_TRY(write_if_changed(source, text));
  const fs::path fresh = options.cache / ("images-" + key + "." + std::to_string(::getpid()) + ".o");
  MET_TRY(check_run({{options.cxx, "-c", source.string(), "-o", fresh.string()}, {}}));
  std::error_code error;
  fs::rename(fresh, object, error);  // builds of other presets may be reading the cache
  return error ? fail(ErrorCode::kIo, error.message(), object.string()) : Result<fs::path>(object);
}

/// The archive of all objects. Its list of members is kept beside it: an equal list means an equal archive.
Result<> archive(const Plan& plan, const Options& options) {
  Strings members;
  for (const Job& job : plan.jobs)
    if (job.vendor == closure::Vendor::kCpu) members.push_back(job.object.string());
  MET_ASSIGN(const fs::path images, assemble_images(plan, options));
  if (!images.empty()) members.push_back(images.string());
  std::ranges::sort(members);
  std::string list;
  for (const std::string& member : members) list += member + "\n";
  const fs::path list_path = options.out / "objects.txt";
  const fs::path path = options.out / "libmet_kernel_objects.a";
  if (const auto old = closure::read_text(list_path); old && *old == list && fs::exists(path)) return {};
  std::error_code error;
  fs::remove(path, error);
  Command command{{options.ar, "crsD", path.string()}, {}};
  command.argv.insert(command.argv.end(), members.begin(), members.end());
  MET_TRY(check_run(command));
  return write_if_changed(list_path, list);
}

void print_commands(const Plan& plan, std::ostream& log) {
  for (const Job& job : plan.jobs)
    for (const Command& command : job.commands) log << to_string(command) << "\n";
}

/// One line of JSON a target: what it resolves to.
void list(const closure::KernelTree& tree, const std::vector<closure::Target>& targets, std::ostream& log) {
  for (const closure::Target& target : targets) {
    json::Array flags(target.flags.begin(), target.flags.end());
    json::Object sources;
    for (const closure::Source& source : target.sources)
      sources.append(source.module, tree.label(source.path));
    const json::Object line{
        {"target", target.name()}, {"flags", std::move(flags)}, {"sources", std::move(sources)}};
    log << json::write(line) << "\n";
  }
}

}  // namespace

Result<> build(const Options& options, std::ostream& log) {
  MET_ASSIGN(const closure::KernelTree tree, closure::KernelTree::load(options.tree));
  MET_TRY(closure::check_tree(tree));
  MET_ASSIGN(std::vector<closure::Target> targets, select_targets(tree, options));
  if (options.list) {
    list(tree, targets, log);
    return {};
  }
  const fs::path table = options.out / "kernel_table.cpp";
  if (options.skip) {
    log << "kernels are skipped: the table holds serving defaults only\n";
    return write_if_changed(table, write_table(tree, options.hardware, {}, {}));
  }
  log << announce(options, targets.size()) << "\n";
  const Stager stager(tree, options.out / "stage");
  for (const closure::Target& target : targets) {
    MET_TRY(stager.stage(target));
    for (const std::string& warning : target.warnings) log << "warning: " << warning << "\n";
  }
  MET_ASSIGN(const Plan plan, make_plan(tree, std::move(targets), options, stager));
  if (options.dry_run) {
    print_commands(plan, log);
    return {};
  }
  MET_ASSIGN(const Entries entries, run_jobs(plan, options, log));
  if (const auto stale = stale_absences(plan, entries); !stale.empty())
    return invalid("expected_absent", stale.front());
  MET_TRY(archive(plan, options));
  return write_if_changed(table, write_table(tree, options.hardware, plan, entries));
}

}  // namespace met::kernelc
