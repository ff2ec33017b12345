// The machine's memory: device memory, pinned host memory, copies, and the driver's virtual memory.
#include <cuda.h>
#include <cuda_runtime.h>
#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

#include "machine.h"
#include "simt.h"

using simt::Lock;
using simt::runtime;

namespace {

cudaError_t allocate(void** memory, size_t bytes) {
  auto& r = runtime();
  if (const cudaError_t error = r.check(); error != cudaSuccess) return error;
  if (bytes > r.free_bytes()) return r.set(cudaErrorMemoryAllocation);
  void* made = nullptr;
  if (posix_memalign(&made, 256, std::max<size_t>(1, bytes)) != 0)
    return r.set(cudaErrorMemoryAllocation);
  std::memset(made, 0xFF, bytes);  // NaNs show reads of unwritten memory
  r.device_memory[static_cast<std::byte*>(made)] = bytes;
  r.counts.live_device_bytes += bytes;
  ++r.counts.allocations;
  *memory = made;
  return cudaSuccess;
}

}  // namespace

cudaError_t cudaMalloc(void** memory, size_t bytes) {
  Lock lock(runtime().mutex);
  if (const cudaError_t error = runtime().refuse_unsafe(); error != cudaSuccess) return error;
  ++runtime().counts.plain_allocations;
  return allocate(memory, bytes);
}
// The memory is there when earlier work of the stream is done: its users wait for that.
cudaError_t cudaMallocAsync(void** memory, size_t bytes, cudaStream_t stream) {
  Lock lock(runtime().mutex);
  auto& r = runtime();
  if (!r.device.has_memory_pools) return r.set(cudaErrorNotSupported);
  if (const cudaError_t error = r.check(stream); error != cudaSuccess) return error;
  if (r.of(stream).captures != nullptr) return r.set(cudaErrorStreamCaptureUnsupported);
  return allocate(memory, bytes);
}
// Frees when earlier work of the stream is done. Work of other streams may then still run.
cudaError_t cudaFreeAsync(void* memory, cudaStream_t stream) {
  Lock lock(runtime().mutex);
  auto& r = runtime();
  if (const cudaError_t error = r.check(stream); error != cudaSuccess) return error;
  if (r.of(stream).captures != nullptr) return r.set(cudaErrorStreamCaptureUnsupported);
  if (!r.device_memory.contains(static_cast<std::byte*>(memory)))
    return r.set(cudaErrorInvalidValue);
  return r.put(stream,
               {.work =
                    [memory] {
                      auto& of = runtime();
                      const auto it = of.device_memory.find(static_cast<std::byte*>(memory));
                      of.counts.live_device_bytes -= it->second;
                      of.device_memory.erase(it);
                      std::free(memory);
                    },
                .waits_for = {}},
               false);
}
cudaError_t cudaFree(void* memory) {
  Lock lock(runtime().mutex);
  auto& r = runtime();
  if (const cudaError_t error = r.refuse_unsafe(); error != cudaSuccess) return error;
  if (memory == nullptr) return cudaSuccess;
  ++r.counts.frees;
  r.drain_all();
  if (const cudaError_t error = r.check(); error != cudaSuccess) return error;
  const auto it = r.device_memory.find(static_cast<std::byte*>(memory));
  if (it == r.device_memory.end()) return r.set(cudaErrorInvalidValue);
  r.counts.live_device_bytes -= it->second;
  r.device_memory.erase(it);
  std::free(memory);
  return cudaSuccess;
}
cudaError_t cudaHostAlloc(void** memory, size_t bytes, unsigned) {
  Lock lock(runtime().mutex);
  auto& r = runtime();
  if (const cudaError_t error = r.refuse_unsafe(); error != cudaSuccess) return error;
  if (const cudaError_t error = r.check(); error != cudaSuccess) return error;
  if (posix_memalign(memory, 4096, std::max<size_t>(1, bytes)) != 0)
    return r.set(cudaErrorMemoryAllocation);
  r.pinned[static_cast<std::byte*>(*memory)] = bytes;
  ++r.counts.allocations;
  ++r.counts.plain_allocations;
  return cudaSuccess;
}
cudaError_t cudaFreeHost(void* memory) {
  Lock lock(runtime().mutex);
  auto& r = runtime();
  if (const cudaError_t error = r.refuse_unsafe(); error != cudaSuccess) return error;
  if (memory == nullptr) return cudaSuccess;
  ++r.counts.frees;
  r.drain_all();
  if (const cudaError_t error = r.check(); error != cudaSuccess) return error;
  if (r.pinned.erase(static_cast<std::byte*>(memory)) == 0) return r.set(cudaErrorInvalidValue);
  std::free(memory);
  return cudaSuccess;
}
void simt::free_memory_of_context() {
  auto& r = runtime();
  std::erase_if(r.device_memory, [&](const auto& one) {
    if (r.mappings.contains(one.first)) return false;
    r.counts.live_device_bytes -= one.second;
    std::free(one.first);
    return true;
  });
  for (const auto& one : r.pinned) std::free(one.first);
  r.pinned.clear();
}
void simt::check_host_read(const void* data, size_t bytes) {
  if (bytes == 0 || runtime().is_pinned(data, bytes) || runtime().is_device(data, bytes)) return;
  fail("a read of host memory that is neither pinned nor registered");
}

cudaError_t cudaHostRegister(void* memory, size_t bytes, unsigned) {
  Lock lock(runtime().mutex);
  auto& r = runtime();
  if (const cudaError_t error = r.refuse_unsafe(); error != cudaSuccess) return error;
  if (const cudaError_t error = r.check(); error != cudaSuccess) return error;
  if (!r.device.registers_memory) return r.set(cudaErrorOperatingSystem);
  if (r.is_pinned(memory, bytes)) return r.set(cudaErrorHostMemoryAlreadyRegistered);
  r.registered[static_cast<std::byte*>(memory)] = bytes;
  return cudaSuccess;
}
cudaError_t cudaHostUnregister(void* memory) {
  Lock lock(runtime().mutex);
  auto& r = runtime();
  if (const cudaError_t error = r.refuse_unsafe(); error != cudaSuccess) return error;
  r.drain_all();
  const auto it = r.registered.find(static_cast<std::byte*>(memory));
  if (it == r.registered.end()) return r.set(cudaErrorHostMemoryNotRegistered);
  constexpr size_t kPage = 4096;
  const uintptr_t begin = reinterpret_cast<uintptr_t>(memory) / kPage * kPage;
  const size_t bytes = reinterpret_cast<uintptr_t>(memory) + it->second - begin;
  std::vector<unsigned char> pages(bytes / kPage + 1);
  if (mincore(reinterpret_cast<void*>(begin), bytes, pages.data()) != 0)
    simt::fail("registered memory is no longer mapped");
  r.registered.erase(it);
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  Lock lock(runtime().mutex);
  auto& r = runtime();
  if (const cudaError_t error = r.check(stream); error != cudaSuccess) return error;
  const bool to_device = r.is_device(to, bytes), from_device = r.is_device(from, bytes);
  const bool fits = kind == cudaMemcpyHostToDevice     ? to_device && !from_device
                    : kind == cudaMemcpyDeviceToHost   ? !to_device && from_device
                    : kind == cudaMemcpyDeviceToDevice ? to_device && from_device
                                                       : true;
  if (!fits) return r.set(cudaErrorInvalidValue);
  if ((!to_device && !r.is_pinned(to, bytes)) || (!from_device && !r.is_pinned(from, bytes))) {
    std::fprintf(stderr,
                 "simt: cudaMemcpyAsync of host memory that is neither pinned nor registered\n");
    return r.set(cudaErrorInvalidValue);
  }
  return r.put(stream, {.work = [=] { std::memcpy(to, from, bytes); }, .waits_for = {}}, true);
}
// A copy to the device returns when unpinned memory has been staged, not when the copy is done.
cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind) {
  Lock lock(runtime().mutex);
  auto& r = runtime();
  if (const cudaError_t error = r.refuse_synchronous(); error != cudaSuccess) return error;
  ++r.counts.plain_copies;
  r.drain(*r.streams[0]);
  if (const cudaError_t error = r.check(); error != cudaSuccess) return error;
  if (bytes == 0) return cudaSuccess;
  if (!r.is_device(to, bytes) || r.is_pinned(from, bytes)) {
    std::memcpy(to, from, bytes);
    return cudaSuccess;
  }
  const auto* begin = static_cast<const std::byte*>(from);
  return r.put(
      nullptr,
      {.work = [to, aside = std::vector<std::byte>(
                        begin, begin + bytes)] { std::memcpy(to, aside.data(), aside.size()); },
       .waits_for = {}},
      false);
}
cudaError_t cudaMemsetAsync(void* memory, int value, size_t bytes, cudaStream_t stream) {
  Lock lock(runtime().mutex);
  auto& r = runtime();
  if (const cudaError_t error = r.check(stream); error != cudaSuccess) return error;
  if (!r.is_device(memory, bytes)) return r.set(cudaErrorInvalidValue);
  return r.put(stream, {.work = [=] { std::memset(memory, value, bytes); }, .waits_for = {}}, true);
}
cudaError_t cudaMemset(void* memory, int value, size_t bytes) {
  Lock lock(runtime().mutex);
  auto& r = runtime();
  if (const cudaError_t error = r.refuse_synchronous(); error != cudaSuccess) return error;
  ++r.counts.plain_copies;
  if (const cudaError_t error = r.check(); error != cudaSuccess) return error;
  return r.put(nullptr, {.work = [=] { std::memset(memory, value, bytes); }, .waits_for = {}},
               true);
}

// ---- The driver's virtual memory ----

namespace {
constexpr size_t kGranularity = 64 << 10;  // small, so that slots share a piece in tests
}

CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute, CUdevice) {
  Lock lock(runtime().mutex);
  *value = runtime().device.has_virtual_memory ? 1 : 0;
  return CUDA_SUCCESS;
}
CUresult cuMemGetAllocationGranularity(size_t* granularity, const CUmemAllocationProp*,
                                       CUmemAllocationGranularity_flags) {
  *granularity = kGranularity;
  return CUDA_SUCCESS;
}
CUresult cuMemAddressReserve(CUdeviceptr* address, size_t bytes, size_t, CUdeviceptr,
                             unsigned long long) {
  Lock lock(runtime().mutex);
  if (const CUresult error = runtime().check_driver(); error != CUDA_SUCCESS) return error;
  if (bytes % kGranularity != 0) return CUDA_ERROR_INVALID_VALUE;
  // Aligned to pages, as mmap() returns it.
  void* made = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (made == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  *address = reinterpret_cast<CUdeviceptr>(made);
  return CUDA_SUCCESS;
}
CUresult cuMemAddressFree(CUdeviceptr address, size_t bytes) {
  Lock lock(runtime().mutex);
  auto& r = runtime();
  if (const CUresult error = r.check_driver(); error != CUDA_SUCCESS) return error;
  auto* at = reinterpret_cast<std::byte*>(address);
  const auto mapped = r.mappings.lower_bound(at);
  if (mapped != r.mappings.end() && mapped->first < at + bytes) return CUDA_ERROR_INVALID_VALUE;
  return munmap(at, bytes) == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, size_t bytes, const CUmemAllocationProp*,
                     unsigned long long) {
  Lock lock(runtime().mutex);
  auto& r = runtime();
  if (const CUresult error = r.check_driver(); error != CUDA_SUCCESS) return error;
  if (bytes % kGranularity != 0) return CUDA_ERROR_INVALID_VALUE;
  if (bytes > r.free_bytes()) return CUDA_ERROR_OUT_OF_MEMORY;
  r.counts.live_device_bytes += bytes;
  ++r.counts.allocations;
  *handle = ++r.num_pieces;
  r.pieces[*handle] = {.bytes = bytes, .offset = r.pieces_end};
  r.pieces_end += static_cast<off_t>(bytes);
  if (ftruncate(r.pieces_fd, r.pieces_end) != 0) simt::fail("no memory for a piece");
  return CUDA_SUCCESS;
}

namespace {
// Frees a piece that is neither mapped nor held.
void free_unless_used(uint64_t number) {
  auto& r = runtime();
  const simt::Runtime::Piece& piece = r.pieces.at(number);
  if (piece.is_held || piece.num_mappings > 0) return;
  (void)fallocate(r.pieces_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, piece.offset,
                  static_cast<off_t>(piece.bytes));
  r.counts.live_device_bytes -= piece.bytes;
  r.pieces.erase(number);
}
}  // namespace

CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  Lock lock(runtime().mutex);
  auto& r = runtime();
  if (const CUresult error = r.check_driver(); error != CUDA_SUCCESS) return error;
  if (!r.device.takes_back) return CUDA_ERROR_INVALID_VALUE;
  const auto it = r.pieces.find(handle);
  if (it == r.pieces.end() || !it->second.is_held)
    simt::fail("cuMemRelease of a handle that is not held");
  it->second.is_held = false;
  free_unless_used(handle);
  return CUDA_SUCCESS;
}
CUresult cuMemMap(CUdeviceptr address, size_t bytes, size_t, CUmemGenericAllocationHandle handle,
                  unsigned long long) {
  Lock lock(runtime().mutex);
  auto& r = runtime();
  if (const CUresult error = r.check_driver(); error != CUDA_SUCCESS) return error;
  const auto it = r.pieces.find(handle);
  auto* at = reinterpret_cast<std::byte*>(address);
  if (it == r.pieces.end() || bytes != it->second.bytes || address % 4096 != 0 ||
      r.mappings.contains(at))
    return CUDA_ERROR_INVALID_VALUE;
  // The offset is a multiple of the granularity, and so of a page.
  if (mmap(at, bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, r.pieces_fd, it->second.offset) != at)
    return CUDA_ERROR_OUT_OF_MEMORY;
  ++it->second.num_mappings;
  r.mappings[at] = {.piece = handle};
  return CUDA_SUCCESS;
}
CUresult cuMemSetAccess(CUdeviceptr address, size_t bytes, const CUmemAccessDesc*, size_t) {
  Lock lock(runtime().mutex);
  auto& r = runtime();
  if (const CUresult error = r.check_driver(); error != CUDA_SUCCESS) return error;
  ++r.counts.access_changes;
  auto* const begin = reinterpret_cast<std::byte*>(address);
  for (std::byte* at = begin; at < begin + bytes;) {
    const auto it = r.mappings.find(at);
    if (it == r.mappings.end()) return CUDA_ERROR_INVALID_VALUE;
    simt::Runtime::Piece& piece = r.pieces.at(it->second.piece);
    const size_t of_piece = piece.bytes;
    if (!std::exchange(it->second.is_accessible, true)) {
      if (mprotect(at, of_piece, PROT_READ | PROT_WRITE) != 0) return CUDA_ERROR_INVALID_VALUE;
      if (!std::exchange(piece.is_filled, true)) std::memset(at, 0xFF, of_piece);
      r.device_memory[at] = of_piece;
    }
    at += of_piece;
  }
  return CUDA_SUCCESS;
}
CUresult cuMemUnmap(CUdeviceptr address, size_t bytes) {
  Lock lock(runtime().mutex);
  auto& r = runtime();
  if (const CUresult error = r.check_driver(); error != CUDA_SUCCESS) return error;
  if (!r.device.takes_back) return CUDA_ERROR_INVALID_VALUE;
  r.drain_all();
  auto* at = reinterpret_cast<std::byte*>(address);
  const auto it = r.mappings.find(at);
  if (it == r.mappings.end()) return CUDA_ERROR_INVALID_VALUE;
  const uint64_t number = it->second.piece;
  if (r.pieces.at(number).bytes != bytes) return CUDA_ERROR_INVALID_VALUE;
  r.mappings.erase(it);
  r.device_memory.erase(at);
  --r.pieces.at(number).num_mappings;
  free_unless_used(number);
  const void* const left =
      mmap(at, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  return left == at ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
