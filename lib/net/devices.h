// Attaches DPDK devices while EAL runs, for a handover between two processes: the new one starts
// EAL without devices and attaches them when the old one has closed or shares them.
//
// Main thread, or control's job thread while the main thread waits.
#pragma once

#include <sys/types.h>

#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "net/address.h"

namespace itif::net {

struct DeviceArgs {
  std::vector<std::string> eal_args;  // start EAL without any device
  std::vector<std::string> devices;   // "net_memif0,role=server,…", "0000:3b:00.0": in order
};
// Takes the devices (--vdev, -a) out of EAL's arguments.
DeviceArgs split_devices(const std::vector<std::string>& args);

// Returns the value of --file-prefix; "rte" if the arguments name none.
std::string file_prefix(const std::vector<std::string>& args);
// Returns the arguments with another --file-prefix.
std::vector<std::string> with_file_prefix(std::vector<std::string> args, const std::string& prefix);

// Returns the device's arguments. Adds the MAC address if the driver takes it only from there.
std::string with_mac(const std::string& device, const MacAddress& mac);

// Returns true if two processes can have a device of this driver open at the same time, and both
// receive all of its packets.
bool can_be_shared(const std::string& driver);

// Makes the listening socket of a memif server deaf, if `arguments` ("role=server,socket=…") are of
// one. Call it before the device is closed: DPDK 22.11 frees what its handler of new connections
// uses, and leaves socket and handler in place. A peer that connects again just then would make
// EAL's interrupt thread call the handler without end, on freed memory.
void close_memif_listener(const std::string& arguments) noexcept;

// Removes the socket file of each memif server among EAL's arguments that no process listens on: a
// killed process leaves it, and the driver does not replace it. Call it before start_eal().
void remove_stale_sockets(const std::vector<std::string>& args);

// Creates the devices. Replaces the socket file that a killed memif server left.
// Errors: kNotFound, kPermission (names the device and the driver's reason).
Status attach_devices(std::span<const std::string> devices);

// Returns EAL's folders of this process and of the one that a handover would start. Makes the
// latter if it does not exist, and lets other users enter the folder that contains both.
// REQUIRES: EAL runs.
std::vector<std::string> make_runtime_directories();
// Gives the files of EAL's hugepages to a user, so that a later process of this user can use the
// same files. Errors: kPermission. REQUIRES: EAL runs.
Status give_hugepages(uid_t user, gid_t group);
// Returns the folder in which EAL makes its folder "dpdk": RUNTIME_DIRECTORY, or its choice by the
// user that started it. REQUIRES: EAL runs.
std::string runtime_root();

// Links DPDK's telemetry socket of `prefix` to that of `own_prefix`, this process's: tools that
// know only `prefix` find it. Does nothing if both are the same, or without telemetry.
void link_telemetry(const std::string& prefix, const std::string& own_prefix);
// Removes such a link, which would keep EAL from making its socket. Call it before start_eal().
void unlink_telemetry(const std::string& prefix);

}  // namespace itif::net
