// The checks of `itifctl doctor`, by what they examine. Each adds one entry per thing examined.
#pragma once

#include "doctor/check.h"
#include "doctor/machine.h"

namespace itif::ctl::doctor {

// memory.cc: hugepages, hugetlbfs, locked memory, transparent hugepages.
void check_memory(const Machine& machine, Checks& checks);
// cpu.cc: worker CPUs, isolation, governor, clock, instructions.
void check_cpus(const Machine& machine, Checks& checks);
// ports.cc: drivers, IOMMU, NUMA nodes, interfaces, MTU, offloads.
void check_ports(const Machine& machine, Checks& checks);
// rights.cc: capabilities, seccomp, the state directory.
void check_rights(const Machine& machine, Checks& checks);

}  // namespace itif::ctl::doctor
