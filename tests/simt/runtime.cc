#include "runtime.h"

#include <cuda_runtime.h>

#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "machine.h"

namespace simt {

Runtime& runtime() {
  static Runtime one;
  return one;
}

void set_device(const DeviceOptions& options) {
  Lock lock(runtime().mutex);
  runtime().device = options;
  runtime().loaded.clear();
  runtime().was_reset = false;
  runtime().is_faulty = runtime().fault_stays = runtime().is_lost = false;
  runtime().faults_after = UINT64_MAX;
}
void set_used_elsewhere(size_t bytes) {
  Lock lock(runtime().mutex);
  runtime().used_elsewhere = bytes;
}
void fail_after(uint64_t count, bool stays) {
  Lock lock(runtime().mutex);
  runtime().fault_stays = stays;
  runtime().faults_after = runtime().counts.launches + count;
}
void break_captures_after(uint64_t count) {
  Lock lock(runtime().mutex);
  runtime().breaks_captures_after = count;
}
cudaError_t wait_for_device() {
  Lock lock(runtime().mutex);
  ++runtime().counts.device_waits;
  const cudaError_t error = runtime().break_captures();
  if (error == cudaSuccess) runtime().drain_all();
  return error;
}
const Context* current_context() {
  Lock lock(runtime().mutex);
  return runtime().enter();
}
bool blas_works() {
  Lock lock(runtime().mutex);
  return runtime().device.blas_outlives_reset || !runtime().was_reset;
}
Counts counts() {
  Lock lock(runtime().mutex);
  return runtime().counts;
}

cudaError_t enqueue_grid(const void* kernel, dim3 grid, dim3 block, size_t shared_bytes,
                         Stream* stream, std::function<void()> thread) {
  Runtime& r = runtime();
  Lock lock(r.mutex);
  if (const cudaError_t error = r.check(stream); error != cudaSuccess) return error;
  const uint64_t threads = uint64_t{block.x} * block.y * block.z;
  const auto max = r.max_shared.find({r.current(), kernel});
  const size_t max_shared = max == r.max_shared.end() ? size_t{48} << 10 : max->second;
  if (threads == 0 || threads > 1024 || grid.x == 0 || grid.y == 0 || grid.z == 0 ||
      grid.y > 65535 || grid.z > 65535 || shared_bytes > max_shared)
    return r.set(cudaErrorInvalidConfiguration);
  if (const cudaError_t error = r.load({reinterpret_cast<intptr_t>(kernel)}, stream);
      error != cudaSuccess)
    return error;
  return r.put(stream,
               {.work =
                    [=, thread = std::move(thread)] {
                      run_grid("kernel", {grid.x, grid.y, grid.z}, {block.x, block.y, block.z},
                               shared_bytes, thread);
                    },
                .waits_for = {}},
               true);
}

cudaError_t load_kernel(const void* kernel) {
  Runtime& r = runtime();
  Lock lock(r.mutex);
  if (const cudaError_t error = r.check(); error != cudaSuccess) return error;
  r.loaded.insert({r.current(), {reinterpret_cast<intptr_t>(kernel)}});
  return cudaSuccess;
}

cudaError_t enqueue_work(Stream* stream, const std::vector<int64_t>& code,
                         std::function<void()> work) {
  Runtime& r = runtime();
  Lock lock(r.mutex);
  if (const cudaError_t error = r.check(stream); error != cudaSuccess) return error;
  if (const cudaError_t error = r.load(code, stream); error != cudaSuccess) return error;
  return r.put(stream, {.work = std::move(work), .waits_for = {}}, true);
}

}  // namespace simt

using simt::Lock;
using simt::runtime;

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaSuccess: return "cudaSuccess";
    case cudaErrorInvalidValue: return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation: return "cudaErrorMemoryAllocation";
    case cudaErrorInvalidConfiguration: return "cudaErrorInvalidConfiguration";
    case cudaErrorInsufficientDriver: return "cudaErrorInsufficientDriver";
    case cudaErrorDevicesUnavailable: return "cudaErrorDevicesUnavailable";
    case cudaErrorNoDevice: return "cudaErrorNoDevice";
    case cudaErrorInvalidDevice: return "cudaErrorInvalidDevice";
    case cudaErrorOperatingSystem: return "cudaErrorOperatingSystem";
    case cudaErrorInvalidResourceHandle: return "cudaErrorInvalidResourceHandle";
    case cudaErrorNotReady: return "cudaErrorNotReady";
    case cudaErrorIllegalAddress: return "cudaErrorIllegalAddress";
    case cudaErrorHostMemoryAlreadyRegistered: return "cudaErrorHostMemoryAlreadyRegistered";
    case cudaErrorHostMemoryNotRegistered: return "cudaErrorHostMemoryNotRegistered";
    case cudaErrorNotSupported: return "cudaErrorNotSupported";
    case cudaErrorLaunchFailure: return "cudaErrorLaunchFailure";
    case cudaErrorIllegalState: return "cudaErrorIllegalState";
    case cudaErrorDeviceUninitialized: return "cudaErrorDeviceUninitialized";
    case cudaErrorContextIsDestroyed: return "cudaErrorContextIsDestroyed";
    case cudaErrorStreamCaptureUnsupported: return "cudaErrorStreamCaptureUnsupported";
    case cudaErrorStreamCaptureInvalidated: return "cudaErrorStreamCaptureInvalidated";
    case cudaErrorStreamCaptureMerge: return "cudaErrorStreamCaptureMerge";
    case cudaErrorStreamCaptureUnmatched: return "cudaErrorStreamCaptureUnmatched";
    case cudaErrorStreamCaptureUnjoined: return "cudaErrorStreamCaptureUnjoined";
    case cudaErrorStreamCaptureIsolation: return "cudaErrorStreamCaptureIsolation";
    case cudaErrorStreamCaptureImplicit: return "cudaErrorStreamCaptureImplicit";
    case cudaErrorCapturedEvent: return "cudaErrorCapturedEvent";
    case cudaErrorStreamCaptureWrongThread: return "cudaErrorStreamCaptureWrongThread";
    case cudaErrorUnknown: break;
  }
  return "cudaErrorUnknown";
}
const char* cudaGetErrorString(cudaError_t error) {
  return cudaGetErrorName(error);
}
cudaError_t cudaGetLastError() {
  Lock lock(runtime().mutex);
  const cudaError_t error = runtime().last_error;
  if (!runtime().is_faulty) runtime().last_error = cudaSuccess;  // a fault is sticky
  return error;
}
cudaError_t cudaPeekAtLastError() {
  Lock lock(runtime().mutex);
  return runtime().last_error;
}

cudaError_t cudaGetDeviceCount(int* count) {
  Lock lock(runtime().mutex);
  *count = runtime().device.is_there ? runtime().device.ordinal + 1 : 0;
  return runtime().device.is_there ? cudaSuccess : cudaErrorInsufficientDriver;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  Lock lock(runtime().mutex);
  if (device != runtime().device.ordinal) return cudaErrorInvalidDevice;
  *properties = {};
  std::strcpy(properties->name, "simulated device");
  properties->totalGlobalMem = runtime().device.memory_bytes;
  properties->sharedMemPerBlock = 48 << 10;
  properties->sharedMemPerBlockOptin = 227 << 10;
  properties->multiProcessorCount = runtime().device.num_multiprocessors;
  properties->maxThreadsPerMultiProcessor = runtime().device.max_threads_per_multiprocessor;
  properties->maxBlocksPerMultiProcessor = runtime().device.max_blocks_per_multiprocessor;
  properties->major = 9;
  properties->l2CacheSize = 50 << 20;
  properties->canUseHostPointerForRegisteredMem = 1;
  properties->unifiedAddressing = 1;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  cudaDeviceProp properties;
  if (const cudaError_t error = cudaGetDeviceProperties(&properties, device); error != cudaSuccess)
    return error;
  switch (attribute) {
    case cudaDevAttrMultiProcessorCount: *value = properties.multiProcessorCount; break;
    case cudaDevAttrCanUseHostPointerForRegisteredMem: *value = 1; break;
    case cudaDevAttrMemoryPoolsSupported: *value = runtime().device.has_memory_pools ? 1 : 0; break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = static_cast<int>(properties.sharedMemPerBlockOptin);
      break;
  }
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) {
  *version = 13000;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = 13000;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  Lock lock(runtime().mutex);
  if (device > runtime().device.ordinal) return runtime().set(cudaErrorInvalidDevice);
  runtime().device_of_thread = device;
  runtime().set_current(nullptr);
  return runtime().check();
}
cudaError_t cudaGetDevice(int* device) {
  *device = runtime().device_of_thread;
  return cudaSuccess;
}
cudaError_t cudaSetDeviceFlags(unsigned) {
  Lock lock(runtime().mutex);
  return runtime().check();
}
cudaError_t cudaDeviceSynchronize() {
  Lock lock(runtime().mutex);
  if (const cudaError_t error = simt::wait_for_device(); error != cudaSuccess) return error;
  return runtime().check();
}
cudaError_t cudaDeviceReset() {
  auto& r = runtime();
  {
    Lock lock(r.mutex);
    r.resetting_thread = std::this_thread::get_id();
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // time for calls of other threads
  Lock lock(r.mutex);
  r.resetting_thread = std::thread::id{};
  if (const cudaError_t error = r.break_captures(); error != cudaSuccess) return error;
  for (auto& stream : r.streams) {
    stream->items.clear();
    stream->num_done = stream->num_put;
  }
  r.registered.clear();
  r.max_shared.clear();
  r.loaded.clear();
  r.counts.live_device_bytes -= std::exchange(r.graph_bytes, 0);
  r.was_reset = true;
  simt::free_memory_of_context();
  simt::free_green_contexts();
  if (r.primary != nullptr) r.primary->is_alive = false;
  r.primary = nullptr;
  ++r.num_resets;
  const cudaError_t answer = r.is_lost     ? cudaErrorDevicesUnavailable
                             : r.is_faulty ? cudaErrorIllegalAddress
                                           : cudaSuccess;
  r.is_faulty &= r.fault_stays || r.num_live() > 0;  // their part of the fault stays
  r.is_lost |= r.is_faulty;
  r.faults_after = UINT64_MAX;
  r.last_error = answer;  // other threads keep theirs
  return answer;
}
cudaError_t cudaMemGetInfo(size_t* available, size_t* total) {
  Lock lock(runtime().mutex);
  *total = runtime().device.memory_bytes;
  *available = runtime().free_bytes();
  return runtime().check();
}

cudaError_t set_most_shared_bytes(const void* kernel, int bytes) {
  Lock lock(runtime().mutex);
  if (bytes < 0 || bytes > 227 << 10) return runtime().set(cudaErrorInvalidValue);
  if (const cudaError_t error = runtime().check(); error != cudaSuccess) return error;
  runtime().max_shared[{runtime().current(), kernel}] = static_cast<size_t>(bytes);
  return cudaSuccess;
}
