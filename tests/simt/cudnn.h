// The part of cuDNN that the CUDA device calls: descriptors with their attributes, and attention
// over ragged rows.
//
// It is stricter than the real one: attributes that are documented as required are required, and a
// descriptor cannot be destroyed before those made of it. The first engine configuration that the
// heuristics propose does not compile. The workspace is overwritten with NaNs, and so are rows of
// the results past a segment's length, up to the next segment: cuDNN does not specify their
// contents.
#pragma once

#include "device/cuda/cudnn/cudnn.h"

namespace simt {

extern const itif::device::cuda::Cudnn cudnn;

}  // namespace simt
