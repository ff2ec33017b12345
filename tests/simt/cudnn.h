// cuDNN, as far as the CUDA device calls it: descriptors with the attributes that they were given, and attention over
// ragged rows.
//
// Stricter than the real one: what its documents call required is, and what a plan was made of stays until the plan is
// gone. Of what it proposes for an operation the first does not compile. Rows of the results that the lengths leave
// out, up to where the next segment begins, are overwritten with NaNs, and so is the workspace: nobody says what they
// hold.
#pragma once

#include "device/cuda/cudnn.h"

namespace simt {

extern const itif::device::cuda::Cudnn cudnn;

}  // namespace simt
