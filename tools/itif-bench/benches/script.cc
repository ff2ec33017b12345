#include "script.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "base/own_program.h"
#include "child_process.h"

namespace itif::bench {
namespace {

using nlohmann::json;

// The program in the source tree whose build holds this one. Errors: kNotFound.
Result<std::string> find_script(const std::string& name, const BenchOptions& options) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (!options.script.empty()) {
    if (fs::is_regular_file(options.script, error)) return options.script;
    return fail(Code::kNotFound,
                fmt::format("--script: {} is not a readable file", options.script));
  }
  const fs::path own = own_program();
  for (fs::path folder = own.parent_path(); !folder.empty(); folder = folder.parent_path()) {
    const fs::path script = folder / "tools" / ("bench-" + name);
    if (fs::is_regular_file(script, error)) return script.string();
    if (folder == folder.root_path()) break;
  }
  return fail(Code::kNotFound,
              fmt::format("tools/bench-{} was not found above {}: it is part of the source tree, "
                          "with the appliance that it starts. Run itif-bench from a build there, "
                          "or name the program with --script",
                          name, own.parent_path().string()));
}

std::vector<std::string> script_arguments(const BenchOptions& options) {
  std::vector<std::string> arguments;
  if (options.quick) arguments.insert(arguments.end(), {"--rounds", "1", "--seconds", "3"});
  if (options.seconds > 0) {
    const long whole_s = std::max(1l, std::lround(options.seconds));
    arguments.insert(arguments.end(), {"--seconds", std::to_string(whole_s)});
  }
  if (options.skip_unknown) arguments.emplace_back("--skip-unknown");
  for (const std::string& name : options.cases) arguments.insert(arguments.end(), {"--case", name});
  arguments.insert(arguments.end(), options.more.begin(), options.more.end());
  return arguments;
}

}  // namespace

Result<json> run_script(const std::string& name, const BenchOptions& options) {
  ITIF_ASSIGN(const std::string script, find_script(name, options));
  const std::string path = (std::filesystem::temp_directory_path() /
                            fmt::format("itif-bench-{}-{}.json", name, ::getpid()))
                               .string();
  std::vector<std::string> arguments = script_arguments(options);
  arguments.insert(arguments.begin(), {script, "--end-with-parent", "--json", path});
  std::fflush(stdout);  // before the output of the program
  const std::string ended = run_child(std::move(arguments));
  std::ifstream file(path);
  std::error_code ignored;
  std::filesystem::remove(path, ignored);
  if (!ended.empty()) return fail(Code::kInternal, fmt::format("{}: {}", script, ended));
  if (!file) return json();
  try {
    return json::parse(file);
  } catch (const json::exception& error) {
    return fail(Code::kCorrupt,
                fmt::format("{} wrote figures that cannot be read: {}", script, error.what()));
  }
}

}  // namespace itif::bench
