// Which of the CPU's ways to multiply bf16 numbers our own operators use.
#pragma once

#include "device/host/cpu.h"
#include "kernels/host/launch.h"

namespace itif::device {

// AMX if the CPU has it and its results on a small problem are those of AVX-512: tile instructions
// reach few of the machines that itif is developed on, and a hypervisor or emulator that gets them wrong
// must cost speed and a log line, not answers.
kernels::host::Bf16Products choose_bf16_products(const CpuFeatures& cpu);

}  // namespace itif::device
