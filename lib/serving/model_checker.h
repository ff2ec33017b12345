// Parses the files of a model in a sandboxed process (sandbox.h) before this process parses them.
// Files which crash or exhaust a parser then end that process and not this one.
//
// One process, the checker, is started with itifd: it has none of its memory, keys or descriptors,
// and no capabilities. For each model it makes a child, which enters the sandbox and opens the
// model as itifd does. The checker ends with itifd.
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/error.h"
#include "control/file.h"
#include "model/model_files.h"
#include "serving/sandbox.h"

namespace itif::serving {

// The only argument of the checker's command line.
inline constexpr const char* kModelCheckerArgument = "--check-models";

class ModelChecker {
 public:
  struct Options {
    std::string program;         // itifd's file
    std::vector<unsigned> cpus;  // that the checker may use; empty: all of this process
    SandboxLimits limits;        // of each model
  };
  // Starts the checker. REQUIRES: the process may start programs: no filter forbids it yet. Errors:
  // kUnsupported (the program cannot be started; says what to do).
  static Result<std::unique_ptr<ModelChecker>> start(Options options);
  ~ModelChecker();  // ends the checker

  // Parses a model in the sandbox and waits for the result. Any thread. Errors: those of
  // backbone::open_model(); kCorrupt (a parser crashed, took too long, or needed too much memory);
  // kUnavailable (`gives_up` has returned true, or the checker has ended and cannot be started).
  Status check(const model::ModelFiles& files, const std::function<bool()>& gives_up);

 private:
  explicit ModelChecker(Options options) : options_(std::move(options)) {}
  Status start_process();
  Status send(const std::string& request, int answers);
  void end_process();

  const Options options_;
  std::mutex mutex_;            // guards the members below
  control::Descriptor socket_;  // to the checker
  pid_t pid_ = -1;
};

// The checker's main function: serves requests from `socket` until its other end is closed.
// Returns the exit status.
int run_model_checker(int socket);

}  // namespace itif::serving
