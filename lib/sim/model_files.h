// Directories of models that exist to be loaded by a simulated device, which reads no weights: the
// tensors have the right names and shapes and are holes of a sparse file, except for the model's
// mark in their first 8 bytes (device/sim/row_marks.h).
#pragma once

#include <cstdint>
#include <string>

#include "base/error.h"
#include "model/spec.h"

namespace itif::sim {

// A directory that is removed with the object.
class TemporaryDirectory {
 public:
  // In $TMPDIR, or /tmp. Errors: kPermission, kResourceExhausted.
  static Result<TemporaryDirectory> make();
  TemporaryDirectory() = default;
  TemporaryDirectory(TemporaryDirectory&& other) noexcept;
  TemporaryDirectory& operator=(TemporaryDirectory&& other) noexcept;
  ~TemporaryDirectory();
  const std::string& path() const noexcept { return path_; }

 private:
  std::string path_;
};

// Writes a classifier of four labels into `directory`, which is created. REQUIRES: a text encoder
// (scenario.h, spec_of()). Errors: kPermission, kResourceExhausted, kUnsupported (a family without
// such a classifier).
Status write_model(const model::BackboneSpec& spec, uint64_t mark, const std::string& directory);

}  // namespace itif::sim
