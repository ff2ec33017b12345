// Writes models for a simulated device, which reads no weights: the tensors have the right names
// and shapes, but are holes of a sparse file, except for the model's mark in the first 8 bytes of
// each (device/sim/row_marks.h).
#pragma once

#include <cstdint>
#include <string>

#include "base/error.h"
#include "model/spec.h"

namespace itif::sim {

// A directory that is removed with the object.
class TemporaryDirectory {
 public:
  // In $TMPDIR. If it is not set: in /dev/shm, where holes are read without filling the page cache,
  // or else in /tmp. Errors: kPermission.
  static Result<TemporaryDirectory> make();
  TemporaryDirectory() = default;
  TemporaryDirectory(TemporaryDirectory&& other) noexcept;
  TemporaryDirectory& operator=(TemporaryDirectory&& other) noexcept;
  ~TemporaryDirectory();
  const std::string& path() const noexcept { return path_; }

 private:
  std::string path_;
};

// How an encoder-decoder generates. Text encoders do not read it.
struct GenerationFiles {
  uint32_t max_output_tokens = 1;
  uint32_t num_beams = 1;
};

// Writes a model into `directory`, which is created: an encoder-decoder, or a text encoder with a
// classifier of four labels. REQUIRES: spec_of() has made `spec` (model_choice.h). Errors:
// kPermission, kResourceExhausted, kUnsupported (a family without such a classifier).
Status write_model(const model::BackboneSpec& spec, uint64_t mark, const std::string& directory,
                   const GenerationFiles& generation);

}  // namespace itif::sim
