#include "device/cuda/memory.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "base/check.h"
#include "base/units.h"

namespace itif::device::cuda {
namespace {

constexpr size_t kSlotAlignment = 256;  // what kernels' packs and cuBLAS ask for, and a buffer has

size_t round_up(size_t value, size_t to) {
  return (value + to - 1) / to * to;
}

class CudaBuffer final : public Buffer {
 public:
  CudaBuffer(std::shared_ptr<Budget> budget, void* data, size_t bytes)
      : budget_(std::move(budget)) {
    data_ = static_cast<std::byte*>(data);
    bytes_ = bytes;
  }
  ~CudaBuffer() override {
    (void)cudaFree(data_);
    budget_->give_back(bytes_);
  }
  CudaBuffer(const CudaBuffer&) = delete;
  CudaBuffer& operator=(const CudaBuffer&) = delete;

 private:
  std::shared_ptr<Budget> budget_;
};

// The driver's virtual memory. Its functions have no runtime form; asked for by name, so that programs start
// where there is no driver.
struct VirtualMemory {
  decltype(&cuMemGetAllocationGranularity) granularity = nullptr;
  decltype(&cuMemAddressReserve) reserve = nullptr;
  decltype(&cuMemAddressFree) free = nullptr;
  decltype(&cuMemCreate) create = nullptr;
  decltype(&cuMemRelease) release = nullptr;
  decltype(&cuMemMap) map = nullptr;
  decltype(&cuMemUnmap) unmap = nullptr;
  decltype(&cuMemSetAccess) set_access = nullptr;

  static Result<const VirtualMemory*> get() {
    static const Result<VirtualMemory> found = find();
    if (!found) return std::unexpected(found.error());
    return &*found;
  }

 private:
  static Result<VirtualMemory> find() {
    VirtualMemory memory;
    ITIF_TRY(find("cuMemGetAllocationGranularity", memory.granularity));
    ITIF_TRY(find("cuMemAddressReserve", memory.reserve));
    ITIF_TRY(find("cuMemAddressFree", memory.free));
    ITIF_TRY(find("cuMemCreate", memory.create));
    ITIF_TRY(find("cuMemRelease", memory.release));
    ITIF_TRY(find("cuMemMap", memory.map));
    ITIF_TRY(find("cuMemUnmap", memory.unmap));
    ITIF_TRY(find("cuMemSetAccess", memory.set_access));
    return memory;
  }
  template <class Function>
  static Status find(const char* name, Function& function) {
    constexpr unsigned kSince = 12000;
    void* found = nullptr;
    cudaDriverEntryPointQueryResult result{};
    ITIF_TRY(check(
        cudaGetDriverEntryPointByVersion(name, &found, kSince, cudaEnableDefault, &result), name));
    if (found == nullptr)
      return fail(Code::kUnsupported, fmt::format("the driver has no {}: it is too old", name));
    function = reinterpret_cast<Function>(found);
    return {};
  }
};

constexpr CUmemLocation kHere{.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0};

CUmemAllocationProp allocation_properties() {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = kHere;
  return properties;
}

class CudaSlabMemory final : public SlabMemory {
 public:
  CudaSlabMemory(std::shared_ptr<Budget> budget, const VirtualMemory& driver, CUdeviceptr address,
                 size_t reserved_bytes, size_t piece_bytes, size_t stride_bytes, uint32_t max_slots)
      : budget_(std::move(budget)),
        driver_(driver),
        address_(address),
        reserved_bytes_(reserved_bytes),
        piece_bytes_(piece_bytes),
        pieces_(reserved_bytes / piece_bytes),
        committed_(max_slots, false) {
    slab_ = {.base = reinterpret_cast<std::byte*>(address), .stride_bytes = stride_bytes};
    max_slots_ = max_slots;
  }
  ~CudaSlabMemory() override {
    for (uint32_t slot = 0; slot < max_slots_; ++slot)
      if (committed_[slot]) release(slot);
    (void)driver_.free(address_, reserved_bytes_);
  }
  CudaSlabMemory(const CudaSlabMemory&) = delete;
  CudaSlabMemory& operator=(const CudaSlabMemory&) = delete;

  Status commit(uint32_t slot) override {
    CHECK(slot < max_slots_ && !committed_[slot]);
    const auto [first, end] = pieces_of(slot);
    for (size_t piece = first; piece < end; ++piece) {
      if (Status held = hold(piece); !held) {
        while (piece-- > first) let_go(piece);
        return held;
      }
    }
    committed_[slot] = true;
    Status cleared = finish_write(cudaMemset(slab_.at(slot), 0, slab_.stride_bytes),
                                  "cannot clear a slab's slot");
    if (!cleared) release(slot);
    return cleared;
  }
  void release(uint32_t slot) override {
    CHECK(slot < max_slots_ && committed_[slot]);
    const auto [first, end] = pieces_of(slot);
    for (size_t piece = first; piece < end; ++piece) let_go(piece);
    committed_[slot] = false;
  }

 private:
  struct Piece {
    uint32_t holders = 0;  // slots
    CUmemGenericAllocationHandle handle = 0;
  };
  std::pair<size_t, size_t> pieces_of(uint32_t slot) const {
    const size_t first = slot * slab_.stride_bytes;
    return {first / piece_bytes_, (first + slab_.stride_bytes - 1) / piece_bytes_ + 1};
  }
  CUdeviceptr address_of(size_t piece) const { return address_ + piece * piece_bytes_; }

  Status hold(size_t number) {
    Piece& piece = pieces_[number];
    if (piece.holders++ > 0) return {};
    Status made = make(number);
    if (!made) piece.holders = 0;
    return made;
  }
  Status make(size_t number) {
    constexpr const char* kWhat = "cannot commit memory of a slab";
    ITIF_TRY(budget_->take(piece_bytes_, "a slab's slot"));
    const CUmemAllocationProp properties = allocation_properties();
    CUmemGenericAllocationHandle& handle = pieces_[number].handle;
    if (Status made = check(driver_.create(&handle, piece_bytes_, &properties, 0), kWhat); !made) {
      budget_->give_back(piece_bytes_);
      return made;
    }
    Status mapped = check(driver_.map(address_of(number), piece_bytes_, 0, handle, 0), kWhat);
    if (mapped) {
      const CUmemAccessDesc access{.location = kHere, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
      mapped = check(driver_.set_access(address_of(number), piece_bytes_, &access, 1), kWhat);
      if (mapped) return {};
      (void)driver_.unmap(address_of(number), piece_bytes_);
    }
    (void)driver_.release(handle);
    budget_->give_back(piece_bytes_);
    return mapped;
  }
  void let_go(size_t number) {
    Piece& piece = pieces_[number];
    CHECK(piece.holders > 0);
    if (--piece.holders > 0) return;
    (void)driver_.unmap(address_of(number), piece_bytes_);
    (void)driver_.release(piece.handle);
    budget_->give_back(piece_bytes_);
  }

  std::shared_ptr<Budget> budget_;
  const VirtualMemory& driver_;
  const CUdeviceptr address_;
  const size_t reserved_bytes_, piece_bytes_;
  std::vector<Piece> pieces_;
  std::vector<bool> committed_;
};

}  // namespace

Status Budget::take(size_t bytes, const char* what) {
  const size_t used = used_bytes_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  if (limit_bytes_ == 0 || used <= limit_bytes_) return {};
  give_back(bytes);
  return fail(Code::kResourceExhausted,
              fmt::format("no memory for {}: {} more than the {} of device.memory", what,
                          format_bytes(used - limit_bytes_), format_bytes(limit_bytes_)));
}

size_t Budget::available_bytes() const {
  size_t free_bytes = 0, all_bytes = 0;
  if (cudaMemGetInfo(&free_bytes, &all_bytes) != cudaSuccess) return 0;
  if (limit_bytes_ == 0) return free_bytes;
  const size_t used = used_bytes_.load(std::memory_order_relaxed);
  return std::min(free_bytes, limit_bytes_ - std::min(limit_bytes_, used));
}

Status finish_write(cudaError_t started, const char* what) {
  ITIF_TRY(check(started, what));
  return check(cudaStreamSynchronize(cudaStreamLegacy), what);
}

Result<std::unique_ptr<Buffer>> allocate_buffer(std::shared_ptr<Budget> budget, size_t bytes) {
  bytes = std::max<size_t>(1, bytes);
  ITIF_TRY(budget->take(bytes, "a buffer"));
  void* data = nullptr;
  Status made = check(cudaMalloc(&data, bytes), "cannot allocate device memory");
  if (made) made = finish_write(cudaMemset(data, 0, bytes), "cannot clear device memory");
  if (!made) {
    (void)cudaFree(data);
    budget->give_back(bytes);
    return std::unexpected(made.error());
  }
  return std::make_unique<CudaBuffer>(std::move(budget), data, bytes);
}

Result<std::unique_ptr<SlabMemory>> reserve_slab(std::shared_ptr<Budget> budget, size_t slot_bytes,
                                                 uint32_t max_slots) {
  CHECK(slot_bytes > 0 && max_slots > 0);
  ITIF_ASSIGN(const VirtualMemory* driver, VirtualMemory::get());
  const CUmemAllocationProp properties = allocation_properties();
  size_t piece_bytes = 0;
  ITIF_TRY(check(driver->granularity(&piece_bytes, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM),
                 "cannot ask for the granularity of device memory"));
  const size_t stride_bytes = round_up(slot_bytes, kSlotAlignment);
  if (stride_bytes > SIZE_MAX / 4 / max_slots)
    return fail(Code::kResourceExhausted, "a slab is larger than there are addresses");
  const size_t reserved_bytes = round_up(stride_bytes * max_slots, piece_bytes);
  CUdeviceptr address = 0;
  ITIF_TRY(check(driver->reserve(&address, reserved_bytes, 0, 0, 0),
                 "cannot reserve a slab's addresses"));
  return std::make_unique<CudaSlabMemory>(std::move(budget), *driver, address, reserved_bytes,
                                          piece_bytes, stride_bytes, max_slots);
}

Result<Pinned> Pinned::allocate(size_t bytes) {
  Pinned pinned;
  ITIF_TRY(check(cudaHostAlloc(reinterpret_cast<void**>(&pinned.data_), std::max<size_t>(1, bytes),
                               cudaHostAllocPortable),
                 "cannot allocate pinned host memory"));
  pinned.bytes_ = bytes;
  return pinned;
}
Pinned::Pinned(Pinned&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
Pinned& Pinned::operator=(Pinned&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}
Pinned::~Pinned() {
  if (data_ != nullptr) (void)cudaFreeHost(data_);
}

}  // namespace itif::device::cuda
