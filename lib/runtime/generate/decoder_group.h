// A group that generates token by token. GenerationExecutor (generation_executor.h) runs its
// sequences; make_decoder_group.h makes it.
//
// Sources are encoded once; a step decodes one token for every live beam. Keys and values are in a
// cache of blocks, which the executor hands out.
#pragma once

#include <cstdint>

#include "backbone/decoder.h"
#include "runtime/generate/step_layout.h"
#include "runtime/group.h"

namespace itif::runtime {

class DecoderGroup : public Group {
 public:
  bool generates() const noexcept final { return true; }

  // The graph buckets of sources and steps.
  virtual const GenerationBuckets& buckets() const noexcept = 0;
  // Encodes what layout.build_sources() laid out.
  virtual void launch_sources(device::Stream& stream, const StepLayout& layout) noexcept = 0;
  // Launches the copies and the step that layout.build_step() laid out, after any sources.
  virtual backbone::StepResult launch_step(device::Stream& stream,
                                           const StepLayout& layout) noexcept = 0;
};

}  // namespace itif::runtime
