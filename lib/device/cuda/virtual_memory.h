// The driver's virtual memory on the device: addresses, and the physical memory that they have, in pieces (2 MiB as a
// rule). Neither belongs to a context: what a device with a fault does not take back outlasts its reset.
#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "device/cuda/error.h"

namespace itif::device::cuda {

// Thread-safe. Its functions need not find a context of the calling thread.
class VirtualMemory {
 public:
  using Piece = CUmemGenericAllocationHandle;

  // Errors: kUnsupported.
  static Result<std::unique_ptr<VirtualMemory>> open();
  size_t piece_bytes() const { return piece_bytes_; }

  // REQUIRES: a multiple of piece_bytes(). Errors: kResourceExhausted, kInternal.
  Result<CUdeviceptr> reserve(size_t bytes);
  // REQUIRES: what reserve() gave, of which nothing is mapped.
  void free(CUdeviceptr address, size_t bytes);
  // Memory for pieces.size() pieces from `address` on: for all or for none. Errors: kResourceExhausted, kInternal.
  Status map(CUdeviceptr address, std::span<Piece> pieces);
  void unmap(CUdeviceptr address, std::span<const Piece> pieces);

  // Frees what was not taken back when it was given: after a reset. Returns how many bytes it is refused again.
  size_t free_refused();
  // That memory is free all the same, as the device's figures say.
  void forget_refused();

 private:
  // Has no runtime form; asked for by name, so that programs start where there is no driver.
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
  // Of a piece, what is still to be done.
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
  VirtualMemory(const Driver& driver, size_t piece_bytes)
      : driver_(driver), piece_bytes_(piece_bytes) {}
  static Result<Driver> find();
  // The calling thread's context, which the driver's functions need, is the device's.
  static void enter() { (void)cudaSetDevice(0); }
  Status map_piece(CUdeviceptr address, Piece& piece);
  void give_back(Refused all);
  void take_back(Refused& rest) const;
  void free_refused_ranges();
  bool try_free(const Range& range) const;

  const Driver driver_;
  const size_t piece_bytes_;
  std::mutex mutex_;  // of what follows
  std::vector<Refused> refused_;
  std::vector<Range> refused_ranges_;
};

}  // namespace itif::device::cuda
