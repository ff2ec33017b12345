#include "model/weight_store.h"

#include <fmt/format.h>

#include "base/check.h"

namespace itif::model {
namespace {

constexpr size_t kVectorAlignment = 64;  // a cache line, and any vector load

uint64_t elements(const WeightKind& kind) {
  return kind.source_shape.elements() * kind.sources.size();
}

size_t round_up(size_t bytes, size_t multiple) {
  return (bytes + multiple - 1) / multiple * multiple;
}

}  // namespace

Result<size_t> gemm_stride_bytes(device::Device& device, const device::GemmShape& shape) {
  ITIF_ASSIGN(const size_t bytes, device.packed_bytes(shape));
  return round_up(bytes, kVectorAlignment);
}

bool has_bias(const WeightKind& kind) {
  return kind.storage == Storage::kMatrix && kind.num_gemms == 1 && kind.gemm.has_bias;
}

Status pack_matrix(device::Device& device, const WeightKind& kind,
                   std::span<const TensorView> weight, std::byte* target) {
  if (kind.num_gemms == 1) return device.pack(kind.gemm, weight, target);
  ITIF_ASSIGN(const size_t stride, gemm_stride_bytes(device, kind.gemm));
  for (uint32_t i = 0; i < kind.num_gemms; ++i, target += stride) {
    uint64_t rows = 0;
    size_t count = 0;
    while (rows < kind.gemm.n && count < weight.size()) rows += weight[count++].shape[0];
    ITIF_TRY(device.pack(kind.gemm, weight.first(count), target));
    weight = weight.subspan(count);
  }
  return {};
}

Result<std::unique_ptr<WeightStore>> WeightStore::create(device::Device& device,
                                                         std::vector<WeightKind> kinds,
                                                         uint32_t max_slots) {
  std::unique_ptr<WeightStore> store(new WeightStore(device, std::move(kinds)));
  store->slabs_.resize(store->kinds_.size());
  store->used_.assign(max_slots, false);
  const auto reserve = [&](size_t bytes) -> Result<kernels::Slab> {
    ITIF_ASSIGN(std::unique_ptr<device::SlabMemory> memory, device.reserve_slab(bytes, max_slots));
    store->slot_bytes_ += memory->slab().stride_bytes;
    store->memory_.push_back(std::move(memory));
    return store->memory_.back()->slab();
  };

  std::vector<size_t> vector_offsets(store->kinds_.size());
  size_t vector_bytes = 0;
  for (size_t i = 0; i < store->kinds_.size(); ++i) {
    const WeightKind& kind = store->kinds_[i];
    switch (kind.storage) {
      case Storage::kVector:
        vector_offsets[i] = vector_bytes;
        vector_bytes = round_up(vector_bytes + elements(kind) * 4, kVectorAlignment);
        break;
      case Storage::kTable: {
        ITIF_ASSIGN(store->slabs_[i],
                    reserve(elements(kind) * dtype_bytes(device.info().compute.activations)));
        break;
      }
      case Storage::kMatrix: {
        ITIF_ASSIGN(const size_t last, device.packed_bytes(kind.gemm));
        ITIF_ASSIGN(const size_t stride, gemm_stride_bytes(device, kind.gemm));
        ITIF_ASSIGN(store->slabs_[i], reserve((kind.num_gemms - 1) * stride + last));
        break;
      }
    }
  }
  if (vector_bytes) {
    ITIF_ASSIGN(const kernels::Slab vectors, reserve(vector_bytes));
    for (size_t i = 0; i < store->kinds_.size(); ++i)
      if (store->kinds_[i].storage == Storage::kVector)
        store->slabs_[i] = {vectors.base + vector_offsets[i], vectors.stride_bytes};
  }
  return store;
}

Result<uint32_t> WeightStore::acquire() {
  uint32_t slot = 0;
  while (slot < used_.size() && used_[slot]) ++slot;
  if (slot == used_.size())
    return fail(Code::kResourceExhausted,
                fmt::format("all {} slots of the group are taken: remove a tenant, or raise "
                            "max_tenants and restart",
                            used_.size()));
  for (size_t i = 0; i < memory_.size(); ++i) {
    if (Status committed = memory_[i]->commit(slot); !committed) {
      while (i--) memory_[i]->release(slot);
      return std::unexpected(std::move(committed.error()));
    }
  }
  used_[slot] = true;
  return slot;
}

Status WeightStore::load(uint32_t slot, const std::vector<WeightKind>& kinds,
                         const Checkpoint& checkpoint, const std::function<void(size_t)>& on_kind) {
  CHECK(slot < used_.size() && used_[slot] && kinds.size() == kinds_.size());
  const ComputeTypes compute = device_.info().compute;
  for (size_t i = 0; i < kinds.size(); ++i) {
    const WeightKind& kind = kinds[i];
    CHECK(kind.storage == kinds_[i].storage && elements(kind) <= elements(kinds_[i]));
    if (on_kind) on_kind(i);
    const bool is_bias = i > 0 && has_bias(kinds_[i - 1]);
    const DType stored = kind.storage == Storage::kMatrix             ? compute.weights
                         : kind.storage == Storage::kTable || is_bias ? compute.activations
                                                                      : DType::kF32;
    std::vector<HostTensor> tensors;
    std::vector<TensorView> views;
    std::vector<float> zeros;
    for (const Source& source : kind.sources) {
      if (source.names.empty()) {
        zeros.resize(kind.source_shape.elements());
        views.push_back(
            {reinterpret_cast<const std::byte*>(zeros.data()), DType::kF32, kind.source_shape});
        continue;
      }
      ITIF_ASSIGN(HostTensor tensor,
                  checkpoint.read(checkpoint.choose(source.names), kind.source_shape, stored));
      views.push_back(tensor.view);
      tensors.push_back(std::move(tensor));
    }
    std::byte* target = slabs_[i].at(slot);
    // Tables need no fill: lookups use only ids that the model has.
    const uint64_t missing =
        kind.storage == Storage::kTable ? 0 : elements(kinds_[i]) - elements(kind);
    const std::vector<float> filling(missing, kind.fill);
    if (missing > 0)
      views.push_back(
          {reinterpret_cast<const std::byte*>(filling.data()), DType::kF32, Shape{missing}});
    if (kind.storage == Storage::kMatrix) {
      for (TensorView& view : views)
        view.shape = {view.shape.elements() / kind.gemm.k, kind.gemm.k};
      ITIF_TRY(pack_matrix(device_, kinds_[i], views, target));
      continue;
    }
    if (is_bias) ITIF_TRY(device_.pack_bias(kinds_[i - 1].gemm, views, slabs_[i - 1].at(slot)));
    const DType type = kind.storage == Storage::kTable ? compute.activations : DType::kF32;
    for (const TensorView& view : views) {
      ITIF_TRY(device_.upload(view, type, target));
      target += view.shape.elements() * dtype_bytes(type);
    }
  }
  return {};
}

void WeightStore::release(uint32_t slot) {
  CHECK(slot < used_.size() && used_[slot]);
  for (auto& memory : memory_) memory->release(slot);
  used_[slot] = false;
}

}  // namespace itif::model
