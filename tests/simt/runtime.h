// The machine that include/cuda_runtime.h presents: one device, its memory, streams, events and
// graphs.
//
// Work on a stream runs late: when somebody waits for it, or by chance when another stream is
// waited for. The same holds for a memset and for a copy of unpinned memory on the default stream,
// which no other stream waits for. Streams advance in an order that the seed determines, so that a
// missing event shows. Copies to and from host memory that is not pinned are refused; CUDA would
// silently wait for them. The driver's functions are refused to a thread without a context, or with
// one that a reset has ended. Any runtime call that uses the device gives the thread its context.
//
// Calls that CUDA's manuals forbid during a stream capture fail and invalidate the capture. So does
// the first use of a kernel, of cuBLAS for a kind of call and its sizes, or of a cuDNN plan.
//
// Besides the device's primary context, the driver makes contexts that are limited to a number of
// multiprocessors, as under CUDA's Multi-Process Service (MPS). A stream, event, graph or cuBLAS
// handle belongs to the context in which it was made. A launch, copy, record, capture or cuBLAS
// call fails in a thread where another context is current. Code is loaded for each context.
//
// Any thread may call; there is one lock for all. A call during another thread's device reset ends
// the process.
#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace simt {

struct DeviceOptions {
  size_t memory_bytes = size_t{1} << 30;
  int num_multiprocessors = 4;
  int max_threads_per_multiprocessor = 2048, max_blocks_per_multiprocessor = 32;
  int ordinal = 0;       // those below it exist, but refuse every call
  bool is_there = true;  // false: as without a driver
  bool is_free = true;   // false: it is listed, but another process has exclusive use
  bool has_memory_pools = true;
  bool has_virtual_memory = true;   // false: the driver has none
  bool takes_back = true;           // false: releasing virtual memory fails
  bool registers_memory = true;     // false: registering host memory fails
  bool blas_outlives_reset = true;  // false: cuBLAS's own runtime does not notice a reset
  size_t cudnn_version = 91900;     // 0: not installed
  bool has_green_contexts = true;   // false: the driver has no such functions
  unsigned least_partition = 2;     // multiprocessors of a green context, and their multiple
  size_t max_green_contexts = 63;
  int num_priorities = 6;  // of streams
  bool has_mps = true;     // false: no MPS server runs
  // Without MPS, some drivers say that contexts can be limited, and refuse to make one.
  bool admits_limits_without_mps = false;
  bool mps_limits = true;     // false: a limit is taken and ignored
  unsigned mps_multiple = 2;  // limits are rounded up to a multiple
  size_t max_mps_contexts = 48;
};
// Replaces the device by one without a fault. REQUIRES: nothing allocated on the former device is
// left.
void set_device(const DeviceOptions& options);

// Other processes use so many bytes of the device's memory from now on.
void set_used_elsewhere(size_t bytes);

// From the count-th launch, copy or memset on, every call fails as after a fault, and nothing is
// freed. cudaDeviceReset() ends the fault but still returns its error. If it `stays`, the process
// does not get its device back: after the reset, every call returns cudaErrorDevicesUnavailable, as
// an H200 does after an illegal access (driver 580).
void fail_after(uint64_t count, bool stays = false);

// Invalidates every capture when count more launches have been captured, as a device-wide
// synchronisation by another thread does.
void break_captures_after(uint64_t count);

// Returns the current context of the calling thread: the primary one, if it had none.
class Context;
const Context* current_context();

// Returns false if cuBLAS's calls fail.
bool blas_works();

// Totals since the start of the program.
struct Counts {
  uint64_t launches = 0;
  uint64_t allocations = 0;  // of device and pinned memory
  uint64_t live_device_bytes = 0;
  uint64_t access_changes = 0;     // of the driver's virtual memory
  uint64_t epilogues = 0;          // cublasLtMatmul calls, captured ones included
  uint64_t cudnn_calls = 0;        // captured ones included
  uint64_t plain_allocations = 0;  // of these, in no stream's order
  uint64_t frees = 0;              // of device and pinned memory, in no stream's order
  uint64_t device_waits = 0;       // calls that wait for all work of the device
  uint64_t stream_waits = 0;       // cudaStreamSynchronize() calls
  uint64_t plain_copies = 0;       // cudaMemcpy() and cudaMemset() calls
  uint64_t streams_made = 0;
  uint64_t contexts_made = 0;  // by the driver
  uint64_t loads = 0;          // of code, by its first launch
};
Counts counts();

// Launches, copies and memsets so far by where their streams run. A graph's nodes count where they
// were captured.
using Multiprocessors = std::bitset<256>;
struct Place {
  Multiprocessors multiprocessors;  // none: all
  int priority = 0;
  uint64_t context = 0;  // 0: the primary one
  unsigned limit = 0;    // most multiprocessors at a time, any of the device; 0: all
  bool operator==(const Place&) const = default;
};
struct LaunchedOn {
  Place place;
  uint64_t launches = 0;
};
std::vector<LaunchedOn> launched_on();

}  // namespace simt
