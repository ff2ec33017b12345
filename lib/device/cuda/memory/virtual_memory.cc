#include "device/cuda/memory/virtual_memory.h"

#include <algorithm>
#include <set>

#include "device/cuda/driver/entry_point.h"

namespace itif::device::cuda {
namespace {

CUmemLocation location_of(int ordinal) {
  return {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = ordinal};
}

CUmemAllocationProp allocation_properties(int ordinal) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = location_of(ordinal);
  return properties;
}

template <class Function>
Status find_function(const char* name, Function& function) {
  return find_entry_point(name, 12000, function);
}

constexpr const char* kCommit = "cannot commit memory of a slab";
constexpr const char* kShare = "cannot share memory of a slab";

}  // namespace

Result<VirtualMemory::Driver> VirtualMemory::find() {
  Driver driver;
  ITIF_TRY(find_function("cuDeviceGetAttribute", driver.get_attribute));
  ITIF_TRY(find_function("cuMemGetAllocationGranularity", driver.granularity));
  ITIF_TRY(find_function("cuMemAddressReserve", driver.reserve));
  ITIF_TRY(find_function("cuMemAddressFree", driver.free));
  ITIF_TRY(find_function("cuMemCreate", driver.create));
  ITIF_TRY(find_function("cuMemRelease", driver.release));
  ITIF_TRY(find_function("cuMemMap", driver.map));
  ITIF_TRY(find_function("cuMemUnmap", driver.unmap));
  ITIF_TRY(find_function("cuMemSetAccess", driver.set_access));
  return driver;
}

Result<std::unique_ptr<VirtualMemory>> VirtualMemory::open(int ordinal) {
  (void)cudaSetDevice(ordinal);
  ITIF_ASSIGN(const Driver driver, find());
  int is_supported = 0;
  ITIF_TRY(
      check(driver.get_attribute(&is_supported,
                                 CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, ordinal),
            "the GPU does not answer"));
  if (is_supported == 0)
    return fail(Code::kUnsupported, "the GPU does not support virtual memory management");
  size_t piece_bytes = 0;
  const CUmemAllocationProp properties = allocation_properties(ordinal);
  ITIF_TRY(check(driver.granularity(&piece_bytes, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM),
                 "cannot ask for the granularity of device memory"));
  return std::unique_ptr<VirtualMemory>(new VirtualMemory(driver, ordinal, piece_bytes));
}

Result<CUdeviceptr> VirtualMemory::reserve(size_t bytes) {
  enter();
  CUdeviceptr address = 0;
  ITIF_TRY(check(driver_.reserve(&address, bytes, 0, 0, 0), "cannot reserve a slab's addresses"));
  return address;
}

void VirtualMemory::free(CUdeviceptr address, size_t bytes) {
  enter();
  const std::lock_guard lock(mutex_);
  if (!try_free({address, bytes})) refused_ranges_.push_back({address, bytes});
}

Status VirtualMemory::map(CUdeviceptr address, std::span<Piece> pieces) {
  enter();
  size_t num_mapped = 0;
  Status status;
  while (status && num_mapped < pieces.size()) {
    status = map_piece(address + num_mapped * piece_bytes_, pieces[num_mapped]);
    if (status) ++num_mapped;
  }
  if (status) status = set_access(address, pieces.size());
  if (!status) unmap(address, pieces.first(num_mapped));
  return status;
}

Status VirtualMemory::map_again(CUdeviceptr address, std::span<const Piece> pieces) {
  enter();
  size_t num_mapped = 0;
  Status status;
  while (status && num_mapped < pieces.size()) {
    status = check(
        driver_.map(address + num_mapped * piece_bytes_, piece_bytes_, 0, pieces[num_mapped], 0),
        kShare);
    if (status) ++num_mapped;
  }
  if (status) status = set_access(address, pieces.size());
  if (!status) unmap_again(address, pieces.first(num_mapped));
  return status;
}

Status VirtualMemory::set_access(CUdeviceptr address, size_t num_pieces) {
  const CUmemAccessDesc access{.location = location_of(ordinal_),
                               .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  return check(driver_.set_access(address, num_pieces * piece_bytes_, &access, 1), kCommit);
}

Status VirtualMemory::map_piece(CUdeviceptr address, Piece& piece) {
  const CUmemAllocationProp properties = allocation_properties(ordinal_);
  ITIF_TRY(check(driver_.create(&piece, piece_bytes_, &properties, 0), kCommit));
  Status mapped = check(driver_.map(address, piece_bytes_, 0, piece, 0), kCommit);
  if (!mapped) give_back({.address = address, .piece = piece, .is_held = true});
  return mapped;
}

void VirtualMemory::unmap(CUdeviceptr address, std::span<const Piece> pieces) {
  enter();
  for (const Piece piece : pieces) {
    give_back({.address = address, .piece = piece, .is_mapped = true, .is_held = true});
    address += piece_bytes_;
  }
}

void VirtualMemory::unmap_again(CUdeviceptr address, std::span<const Piece> pieces) {
  enter();
  for (const Piece piece : pieces) {
    give_back({.address = address, .piece = piece, .is_mapped = true});
    address += piece_bytes_;
  }
}

void VirtualMemory::release(std::span<const Piece> pieces) {
  enter();
  for (const Piece piece : pieces) give_back({.piece = piece, .is_held = true});
}

void VirtualMemory::give_back(Refused all) {
  take_back(all);
  if (all.is_done()) return;
  const std::lock_guard lock(mutex_);
  refused_.push_back(all);
}

void VirtualMemory::take_back(Refused& rest) const {
  if (rest.is_mapped) rest.is_mapped = driver_.unmap(rest.address, piece_bytes_) != CUDA_SUCCESS;
  if (rest.is_held) rest.is_held = driver_.release(rest.piece) != CUDA_SUCCESS;
}

size_t VirtualMemory::free_refused() {
  enter();
  const std::lock_guard lock(mutex_);
  for (Refused& rest : refused_) take_back(rest);
  std::erase_if(refused_, [](const Refused& rest) { return rest.is_done(); });
  free_refused_ranges();
  // A piece may be refused for each of its addresses.
  std::set<Piece> pieces;
  for (const Refused& rest : refused_) pieces.insert(rest.piece);
  return pieces.size() * piece_bytes_;
}

void VirtualMemory::forget_refused() {
  enter();
  const std::lock_guard lock(mutex_);
  refused_.clear();
  free_refused_ranges();
}

void VirtualMemory::free_refused_ranges() {
  std::erase_if(refused_ranges_, [this](const Range& range) { return try_free(range); });
}

bool VirtualMemory::try_free(const Range& range) const {
  const bool is_in_use = std::ranges::any_of(refused_, [&](const Refused& rest) {
    return rest.is_mapped && rest.address - range.address < range.bytes;
  });
  return !is_in_use && driver_.free(range.address, range.bytes) == CUDA_SUCCESS;
}

}  // namespace itif::device::cuda
