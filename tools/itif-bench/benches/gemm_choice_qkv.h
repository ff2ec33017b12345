// See gemm_choice_qkv.cc.
#pragma once

#include "benches.h"
#include "device/device.h"

namespace itif::bench {

Status qkv_choice_rows(const BenchOptions& options, device::Device& device, device::Stream& stream,
                       const std::string& dtype, Report& report);

}  // namespace itif::bench
