// The machine that include/cuda_runtime.h shows: one device, its memory, streams, events and graphs.
//
// What is put onto a stream is done late: when somebody waits for it, or by chance when another stream is
// waited for; so are a memset and a copy of unpinned memory on the default stream, which no other waits for. Streams
// go on in an order that the seed decides, so that a missing event shows. Copies to and from host memory that is not
// pinned are refused, where CUDA would silently wait for them. The driver's functions are refused to a thread whose
// context is none or one that a reset has ended; any call of the runtime's on the device gives it one.
//
// Any thread; one lock for all. But a call while another thread resets the device ends the process.
#pragma once

#include <cstddef>
#include <cstdint>

namespace simt {

struct DeviceOptions {
  size_t memory_bytes = size_t{1} << 30;
  int num_multiprocessors = 4;
  bool is_there = true;            // false: as without a driver
  bool is_free = true;             // false: it is listed, but another process has it for itself
  bool has_virtual_memory = true;  // the driver's
  bool takes_back = true;          // false: not that memory
  bool registers_memory = true;    // the host's
  size_t cudnn_version = 91900;    // 0: it is not installed
};
// In order. REQUIRES: nothing of a former device is left.
void set_device(const DeviceOptions& options);

// From the count-th launch, copy or memset on, every call fails as after a fault, and nothing is freed, until
// cudaDeviceReset(), which answers the fault though it has ended it; or, where it `stays`, for ever.
void fail_after(uint64_t count, bool stays = false);

// Breaks every capture when count more launches have been captured, as a wait for the whole device by another thread does.
void break_captures_after(uint64_t count);

// Since the start of the program.
struct Counts {
  uint64_t launches = 0;
  uint64_t allocations = 0;  // of device and of pinned memory
  uint64_t live_device_bytes = 0;
  uint64_t access_changes = 0;  // of the driver's virtual memory
  uint64_t epilogues = 0;       // cublasLtMatmul's, captured ones included
  uint64_t cudnn_calls = 0;     // likewise
};
Counts counts();

}  // namespace simt
