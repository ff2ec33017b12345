// Keeps this process's temporary files in one directory, which is removed when the process ends,
// also by SIGINT, SIGTERM or SIGHUP.
#pragma once

#include "sim/model_files.h"

namespace itif::sim {

// REQUIRES: created before other threads, since it sets TMPDIR and blocks the signals.
class Scratch {
 public:
  Scratch();
  // Waits for the end of the process if a signal is removing the files.
  ~Scratch();

 private:
  TemporaryDirectory directory_;  // empty path: it could not be made
};

}  // namespace itif::sim
