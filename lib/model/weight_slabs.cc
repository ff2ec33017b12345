#include "model/weight_slabs.h"

#include <utility>

#include "model/packed_matrix.h"

namespace itif::model {
namespace {

size_t aligned(size_t bytes) {
  return (bytes + kVectorAlignment - 1) / kVectorAlignment * kVectorAlignment;
}

}  // namespace

bool has_bias(const WeightKind& kind) {
  return kind.storage == Storage::kMatrix && kind.num_gemms == 1 && kind.gemm.has_bias;
}

Result<WeightSlabs> WeightSlabs::reserve(device::Device& device, std::vector<WeightKind> kinds,
                                         uint32_t max_slots) {
  WeightSlabs slabs;
  slabs.kinds_ = std::move(kinds);
  slabs.by_kind_.resize(slabs.kinds_.size());
  slabs.slab_of_.resize(slabs.kinds_.size());
  slabs.is_packed_bias_.resize(slabs.kinds_.size());
  for (size_t i = 0; i < slabs.kinds_.size(); ++i)
    slabs.is_packed_bias_[i] = slabs.is_bias(i) && device.packs_bias(slabs.kinds_[i - 1].gemm);
  const auto reserve = [&](size_t bytes) -> Result<kernels::Slab> {
    ITIF_ASSIGN(std::unique_ptr<device::SlabMemory> memory, device.reserve_slab(bytes, max_slots));
    slabs.slot_bytes_ += memory->slab().stride_bytes;
    slabs.memory_.push_back(std::move(memory));
    return slabs.memory_.back()->slab();
  };

  std::vector<size_t> vector_offsets(slabs.kinds_.size());
  size_t vector_bytes = 0;
  for (size_t i = 0; i < slabs.kinds_.size(); ++i) {
    const WeightKind& kind = slabs.kinds_[i];
    switch (kind.storage) {
      case Storage::kVector:
        vector_offsets[i] = vector_bytes;
        vector_bytes = aligned(vector_bytes + elements(kind) * 4);
        break;
      case Storage::kTable: {
        slabs.slab_of_[i] = slabs.memory_.size();
        ITIF_ASSIGN(slabs.by_kind_[i],
                    reserve(elements(kind) * dtype_bytes(device.info().compute.activations)));
        break;
      }
      case Storage::kMatrix: {
        ITIF_ASSIGN(const size_t last, device.packed_bytes(kind.gemm));
        ITIF_ASSIGN(const size_t stride, gemm_stride_bytes(device, kind.gemm));
        slabs.slab_of_[i] = slabs.memory_.size();
        ITIF_ASSIGN(slabs.by_kind_[i], reserve((kind.num_gemms - 1) * stride + last));
        break;
      }
    }
  }
  if (vector_bytes) {
    ITIF_ASSIGN(const kernels::Slab vectors, reserve(vector_bytes));
    for (size_t i = 0; i < slabs.kinds_.size(); ++i) {
      if (slabs.kinds_[i].storage != Storage::kVector) continue;
      slabs.slab_of_[i] = slabs.memory_.size() - 1;
      slabs.by_kind_[i] = vectors.from(vector_offsets[i]);
    }
  }
  for (size_t slab = 0; slab < slabs.memory_.size(); ++slab)
    slabs.layouts_.push_back(slabs.layout_of(slab));
  return slabs;
}

std::vector<uint64_t> WeightSlabs::layout_of(size_t slab) const {
  const kernels::Slab entries = memory_[slab]->slab();
  std::vector<uint64_t> layout = {entries.stride_bytes};
  const auto add = [&](auto... numbers) {
    (layout.push_back(static_cast<uint64_t>(numbers)), ...);
  };
  for (size_t i = 0; i < kinds_.size(); ++i) {
    if (!counts(i, slab)) continue;
    const WeightKind& kind = kinds_[i];
    const device::GemmShape& gemm = kind.gemm;
    const bool is_beside = slab_of_[i] != slab;  // a bias of which the matrix holds a copy
    add(kind.storage, elements(kind), is_bias(i), is_beside);
    if (!is_beside) add(by_kind_[i].base - entries.base);
    if (kind.storage == Storage::kMatrix)
      add(gemm.n, gemm.k, gemm.activation, gemm.has_bias, gemm.f32_out, kind.num_gemms);
  }
  return layout;
}

EntryBeginning WeightSlabs::beginning(size_t slab, const WeightContents& contents) const {
  EntryBeginning beginning{.layout = layouts_[slab], .first = {}};
  for (size_t i = 0; i < kinds_.size(); ++i)
    if (counts(i, slab)) beginning.first.push_back(contents[i].first);
  return beginning;
}

EntryContent WeightSlabs::content(size_t slab, const WeightContents& contents) const {
  EntryContent content{.beginning = beginning(slab, contents), .whole = {}};
  for (size_t i = 0; i < kinds_.size(); ++i)
    if (counts(i, slab)) content.whole.push_back(contents[i].whole);
  return content;
}

}  // namespace itif::model
