// Chooses the CPU instructions by which our own operators multiply bf16 numbers.
#pragma once

#include "device/host/cpu.h"
#include "kernels/host/launch.h"

namespace itif::device {

// Returns AMX if the CPU has it and it gives the results of AVX-512 on a small problem. Few of the
// machines that itif is developed on have tile instructions. A hypervisor or emulator that gets
// them wrong must cost speed and a log line, not wrong answers.
kernels::host::Bf16Products choose_bf16_products(const CpuFeatures& cpu);

}  // namespace itif::device
