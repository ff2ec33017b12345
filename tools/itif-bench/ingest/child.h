// A program that runs beside the bench, on CPUs of its own. It ends when the bench ends.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/error.h"

namespace itif::bench {

class Child {
 public:
  // Starts `command` (a path or a name on PATH, and arguments) with both outputs in the file
  // `output`. `cpus`: "0" or "0,1". Errors: kNotFound, kInternal.
  static Result<Child> start(std::vector<std::string> command, const std::string& cpus,
                             std::string output);
  Child(Child&& other) noexcept;
  Child& operator=(Child&&) = delete;
  ~Child();  // end()

  bool has_ended();
  // Interrupts it (SIGINT) and waits until it ends; kills it if that takes long.
  void end();
  // Its output so far.
  std::string output() const;
  // The last line of it that is not empty.
  std::string last_line() const;

 private:
  Child(pid_t pid, std::string output) : pid_(pid), output_(std::move(output)) {}

  pid_t pid_;  // -1: has ended
  std::string output_;
};

// The CPUs that this process may use, ascending.
std::vector<int> usable_cpus();
// The path of a program of itif, found beside this one; empty: it is not there.
std::string program_beside(const std::string& name);
// The path of a program on PATH; empty: it is not there.
std::string program_on_path(const std::string& name);

}  // namespace itif::bench
