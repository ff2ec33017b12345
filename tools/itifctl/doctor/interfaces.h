// Checks of a port on a kernel interface: AF_PACKET, AF_XDP, pcap.
#pragma once

#include "doctor/check.h"
#include "doctor/machine.h"

namespace itif::ctl::doctor {

// The interface, its addresses in the kernel, and AF_PACKET's ring. REQUIRES: Kind::kInterface.
void check_interface(const Machine& machine, const PortUse& use, Checks& checks);

}  // namespace itif::ctl::doctor
