// Reads token ids from packet buffers: see GatherIds in args.h.
#pragma once

#include "kernels/host/launch.h"

namespace itif::kernels::host {
void gather_ids(const GatherIds& args) noexcept;
}
