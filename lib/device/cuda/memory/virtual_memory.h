// The driver's virtual memory management: device addresses, and physical memory mapped to them in
// pieces (usually 2 MiB). Neither belongs to a context. Memory that a faulty device refuses to take
// back therefore outlasts its reset.
#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "device/cuda/driver/error.h"

namespace itif::device::cuda {

// Thread-safe. The calling thread needs no context.
class VirtualMemory {
 public:
  using Piece = CUmemGenericAllocationHandle;

  // `ordinal`: the GPU, as the CUDA runtime counts them. Errors: kUnsupported.
  static Result<std::unique_ptr<VirtualMemory>> open(int ordinal);
  size_t piece_bytes() const { return piece_bytes_; }

  // REQUIRES: a multiple of piece_bytes(). Errors: kResourceExhausted, kInternal.
  Result<CUdeviceptr> reserve(size_t bytes);
  // REQUIRES: a range from reserve() in which nothing is mapped.
  void free(CUdeviceptr address, size_t bytes);
  // Creates all `pieces` and maps them at `address` on, or none. Errors: kResourceExhausted,
  // kInternal.
  Status map(CUdeviceptr address, std::span<Piece> pieces);
  void unmap(CUdeviceptr address, std::span<const Piece> pieces);
  // Maps pieces at `address` that are mapped elsewhere, all or none. Errors: kResourceExhausted,
  // kInternal.
  Status map_again(CUdeviceptr address, std::span<const Piece> pieces);
  // Unmaps pieces that map_again() or map() has mapped, without freeing them.
  void unmap_again(CUdeviceptr address, std::span<const Piece> pieces);
  // Frees pieces of map() once nothing maps them.
  void release(std::span<const Piece> pieces);

  // Call after a reset: frees the memory that the device refused to take back. Returns the bytes
  // refused again.
  size_t free_refused();
  // Forgets the refused memory. Call if the device's figures show that it is free.
  void forget_refused();

 private:
  // Driver functions that the CUDA runtime lacks. Looked up by name, so that programs start without
  // a driver.
  struct Driver {
    decltype(&cuDeviceGetAttribute) get_attribute = nullptr;
    decltype(&cuMemGetAllocationGranularity) granularity = nullptr;
    decltype(&cuMemAddressReserve) reserve = nullptr;
    decltype(&cuMemAddressFree) free = nullptr;
    decltype(&cuMemCreate) create = nullptr;
    decltype(&cuMemRelease) release = nullptr;
    decltype(&cuMemMap) map = nullptr;
    decltype(&cuMemUnmap) unmap = nullptr;
    decltype(&cuMemSetAccess) set_access = nullptr;
  };
  // A piece that the device refused to take back, and the steps that remain.
  struct Refused {
    CUdeviceptr address = 0;
    Piece piece = 0;
    bool is_mapped = false, is_held = false;
    bool is_done() const { return !is_mapped && !is_held; }
  };
  struct Range {
    CUdeviceptr address = 0;
    size_t bytes = 0;
  };
  VirtualMemory(const Driver& driver, int ordinal, size_t piece_bytes)
      : driver_(driver), ordinal_(ordinal), piece_bytes_(piece_bytes) {}
  static Result<Driver> find();
  // Enters the device's context in the calling thread; the driver's functions need one.
  void enter() const { (void)cudaSetDevice(ordinal_); }
  Status map_piece(CUdeviceptr address, Piece& piece);
  Status set_access(CUdeviceptr address, size_t num_pieces);
  void give_back(Refused all);
  void take_back(Refused& rest) const;
  void free_refused_ranges();
  bool try_free(const Range& range) const;

  const Driver driver_;
  const int ordinal_;
  const size_t piece_bytes_;
  std::mutex mutex_;  // guards the members below
  std::vector<Refused> refused_;
  std::vector<Range> refused_ranges_;
};

}  // namespace itif::device::cuda
