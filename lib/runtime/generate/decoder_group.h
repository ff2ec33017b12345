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

struct DecoderGroupOptions {
  uint32_t max_beams = 128;  // live beams of one step
  // The memory limit of the K/V cache, which takes no more than that many beams can need.
  uint64_t max_cache_bytes = 1u << 30;
};

class DecoderGroup : public Group {
 public:
  // Each step waits for the previous one. On the host, two wake-ups per step cost as much as the
  // overlap saves (`itif-bench overlap`).
  bool overlaps_on_host() const noexcept final { return false; }

  virtual uint32_t max_beams() const noexcept = 0;
  virtual uint32_t num_kv_blocks() const noexcept = 0;  // of the K/V cache
  // The graph buckets of sources and steps.
  virtual const GenerationBuckets& buckets() const noexcept = 0;
  // Encodes what layout.build_sources() laid out.
  virtual void launch_sources(device::Stream& stream, const StepLayout& layout) noexcept = 0;
  // Launches the copies and the step that layout.build_step() laid out, after any sources.
  virtual backbone::StepResult launch_step(device::Stream& stream,
                                           const StepLayout& layout) noexcept = 0;
};

}  // namespace itif::runtime
