#include "model/weight_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

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
  std::unique_ptr<WeightStore> store(new WeightStore(device, std::move(kinds), max_slots));
  store->slabs_.resize(store->kinds_.size());
  store->memory_of_.resize(store->kinds_.size());
  store->num_holders_.resize(max_slots);
  store->contents_.resize(max_slots);
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
        store->memory_of_[i] = store->memory_.size();
        ITIF_ASSIGN(store->slabs_[i],
                    reserve(elements(kind) * dtype_bytes(device.info().compute.activations)));
        break;
      }
      case Storage::kMatrix: {
        ITIF_ASSIGN(const size_t last, device.packed_bytes(kind.gemm));
        ITIF_ASSIGN(const size_t stride, gemm_stride_bytes(device, kind.gemm));
        store->memory_of_[i] = store->memory_.size();
        ITIF_ASSIGN(store->slabs_[i], reserve((kind.num_gemms - 1) * stride + last));
        break;
      }
    }
  }
  if (vector_bytes) {
    ITIF_ASSIGN(const kernels::Slab vectors, reserve(vector_bytes));
    for (size_t i = 0; i < store->kinds_.size(); ++i) {
      if (store->kinds_[i].storage != Storage::kVector) continue;
      store->memory_of_[i] = store->memory_.size() - 1;
      store->slabs_[i] = vectors.from(vector_offsets[i]);
    }
  }
  return store;
}

WeightStore::Match WeightStore::no_match() const {
  return {.slot = {},
          .same = std::vector<std::optional<uint32_t>>(memory_.size()),
          .new_bytes = slot_bytes_,
          .contents = {},
          .claim = nullptr};
}

WeightStore::Match WeightStore::match_slot(uint32_t slot) {
  Match match = no_match();
  match.slot = slot;
  match.new_bytes = 0;
  const std::lock_guard lock(mutex_);
  match.claim = make_claim({.slots = {slot}});
  return match;
}

std::shared_ptr<const WeightStore::Claim> WeightStore::make_claim(Claim claim) {
  for (const uint32_t slot : claim.slots) {
    CHECK(num_holders_[slot] > 0);
    ++num_holders_[slot];
  }
  const auto end = [this](const Claim* ended) {
    {
      const std::lock_guard lock(mutex_);
      std::erase(claims_, ended);
      for (const uint32_t slot : ended->slots) release_locked(slot);
    }
    claim_ended_.notify_all();
    delete ended;
  };
  claims_.push_back(new Claim(std::move(claim)));
  return {claims_.back(), end};
}

bool WeightStore::counts(size_t kind, size_t slab) const {
  // A weight's memory may hold its bias, too.
  return memory_of_[kind] == slab || (is_bias(kind) && memory_of_[kind - 1] == slab);
}

bool WeightStore::may_share(const WeightContents& a, const WeightContents& b) const {
  if (a.empty() || b.empty()) return false;
  const auto may_share_slab = [&](size_t slab) {
    for (size_t i = 0; i < kinds_.size(); ++i)
      if (counts(i, slab) && a[i].first != b[i].first) return false;
    return true;
  };
  bool all = true, any = false;
  for (size_t slab = 0; slab < memory_.size(); ++slab) {
    const bool may = may_share_slab(slab);
    all &= may;
    any |= may && memory_[slab]->can_share();
  }
  return all || any;
}

bool WeightStore::holds(uint32_t slot, size_t slab, const WeightContents& contents) const {
  const WeightContents& held = contents_[slot];
  if (held.empty()) return false;
  for (size_t i = 0; i < kinds_.size(); ++i)
    if (counts(i, slab) && held[i] != contents[i]) return false;
  return true;
}

Result<WeightStore::Match> WeightStore::match(const std::vector<WeightKind>& kinds,
                                              const Checkpoint& checkpoint, const OnKind& on_kind) {
  CHECK(kinds.size() == kinds_.size());
  Match match = no_match();
  WeightContents& contents = match.contents;
  contents.resize(kinds.size());
  for (size_t i = 0; i < kinds.size(); ++i) {
    ITIF_ASSIGN(contents[i].first, hash_kind(key_, kinds[i], checkpoint, kFirstBytes));
  }
  std::vector<bool> is_likely(kinds.size());
  {
    std::unique_lock lock(mutex_);
    const auto is_rival = [&](const Claim* claim) { return may_share(claim->contents, contents); };
    if (std::ranges::any_of(claims_, is_rival)) {
      claim_ended_.wait(lock, [&] { return std::ranges::none_of(claims_, is_rival); });
      match.has_waited = true;
      return match;
    }
    Claim claim{.contents = contents, .slots = {}};
    for (uint32_t slot = 0; slot < contents_.size(); ++slot) {
      if (!may_share(contents_[slot], contents)) continue;
      claim.slots.push_back(slot);
      for (size_t i = 0; i < kinds.size(); ++i)
        if (contents_[slot][i].first == contents[i].first) is_likely[i] = true;
    }
    match.claim = make_claim(std::move(claim));
  }
  const std::vector<uint32_t>& slots = match.claim->slots;
  if (slots.empty()) return match;
  for (size_t i = 0; i < kinds.size(); ++i) {
    if (on_kind) on_kind(i);
    if (is_likely[i]) {
      ITIF_ASSIGN(contents[i].whole, hash_kind(key_, kinds[i], checkpoint, UINT64_MAX));
    }
  }
  const std::lock_guard lock(mutex_);
  for (size_t slab = 0; slab < memory_.size(); ++slab)
    for (const uint32_t slot : slots)
      if (!match.same[slab] && holds(slot, slab, contents)) match.same[slab] = slot;
  for (const uint32_t slot : slots)
    if (!match.slot && contents_[slot] == contents) match.slot = slot;
  match.new_bytes = 0;
  for (size_t slab = 0; slab < memory_.size() && !match.slot; ++slab) {
    if (!memory_[slab]->can_share()) match.same[slab].reset();
    if (!match.same[slab]) match.new_bytes += memory_[slab]->slab().stride_bytes;
  }
  return match;
}

Result<uint32_t> WeightStore::take(const Match& match) {
  const auto free = std::ranges::find(num_holders_, 0u);
  if (free == num_holders_.end())
    return fail(Code::kResourceExhausted,
                fmt::format("all {} slots of the group are taken: remove a tenant, or raise "
                            "max_tenants and restart",
                            num_holders_.size()));
  const auto slot = static_cast<uint32_t>(free - num_holders_.begin());
  for (size_t i = 0; i < memory_.size(); ++i) {
    Status taken =
        match.same[i] ? memory_[i]->share(slot, *match.same[i]) : memory_[i]->commit(slot);
    if (taken) continue;
    while (i--) memory_[i]->release(slot);
    return std::unexpected(std::move(taken.error()));
  }
  num_holders_[slot] = 1;
  equal_.add(slot, contents_);
  return slot;
}

Result<uint32_t> WeightStore::acquire() {
  const std::lock_guard lock(mutex_);
  return take(no_match());
}

Result<uint32_t> WeightStore::add(const Match& match, const std::vector<WeightKind>& kinds,
                                  const Checkpoint& checkpoint, const OnKind& on_kind) {
  uint32_t slot = 0;
  {
    const std::lock_guard lock(mutex_);
    if (match.slot) {
      ++num_holders_[*match.slot];
      return *match.slot;
    }
    ITIF_ASSIGN(slot, take(match));
  }
  // Also if on_kind throws.
  struct Guard {
    WeightStore* store;
    uint32_t slot;
    ~Guard() {
      if (store != nullptr) store->release(slot);
    }
  } guard{this, slot};
  ITIF_TRY(fill(slot, match, kinds, checkpoint, on_kind));
  guard.store = nullptr;
  return slot;
}

Status WeightStore::load(uint32_t slot, const std::vector<WeightKind>& kinds,
                         const Checkpoint& checkpoint, const OnKind& on_kind) {
  {
    const std::lock_guard lock(mutex_);
    CHECK(slot < num_holders_.size() && num_holders_[slot] == 1 && contents_[slot].empty());
  }
  return fill(slot, no_match(), kinds, checkpoint, on_kind);
}

uint64_t WeightStore::loading_bytes(const Match& match, const std::vector<WeightKind>& kinds,
                                    const Checkpoint& checkpoint) const {
  if (match.slot) return 0;
  uint64_t most = 0;
  for (size_t i = 0; i < kinds.size(); ++i) {
    if (match.same[memory_of_[i]].has_value()) continue;
    uint64_t bytes = 0;
    for (const Source& source : kinds[i].sources)
      if (!source.names.empty())
        if (const TensorEntry* tensor = checkpoint.find(checkpoint.choose(source.names)))
          bytes += tensor->end - tensor->begin;
    if (kinds[i].storage == Storage::kMatrix)
      bytes += elements(kinds_[i]) * dtype_bytes(device_.info().compute.weights);
    most = std::max(most, bytes);
  }
  return most;
}

// The sources of a kind in host memory.
struct WeightStore::Tensors {
  std::vector<HostTensor> tensors;
  std::vector<TensorView> views;  // without data: zeros
  KindContent content;
};

Result<WeightStore::Tensors> WeightStore::read(size_t kind, const WeightKind& own,
                                               const Checkpoint& checkpoint) const {
  const ComputeTypes compute = device_.info().compute;
  const DType stored = own.storage == Storage::kMatrix                   ? compute.weights
                       : own.storage == Storage::kTable || is_bias(kind) ? compute.activations
                                                                         : DType::kF32;
  Tensors read;
  for (const Source& source : own.sources) {
    TensorView& view = read.views.emplace_back();
    if (source.names.empty()) continue;
    ITIF_ASSIGN(HostTensor tensor,
                checkpoint.read(checkpoint.choose(source.names), own.source_shape, stored));
    view = tensor.view;
    read.tensors.push_back(std::move(tensor));
  }
  read.content = content_of(key_, own, read.views);
  return read;
}

Status WeightStore::fill(uint32_t slot, const Match& match, const std::vector<WeightKind>& kinds,
                         const Checkpoint& checkpoint, const OnKind& on_kind) {
  CHECK(kinds.size() == kinds_.size());
  const auto is_shared = [&](size_t kind) { return match.same[memory_of_[kind]].has_value(); };
  WeightContents contents = match.contents;
  contents.resize(kinds.size());
  for (size_t i = 0; i < kinds.size(); ++i) {
    CHECK(kinds[i].storage == kinds_[i].storage && elements(kinds[i]) <= elements(kinds_[i]));
    if (on_kind) on_kind(i);
    const bool packs_bias = is_bias(i) && !is_shared(i - 1);
    if (is_shared(i) && !packs_bias) continue;
    ITIF_ASSIGN(Tensors tensors, read(i, kinds[i], checkpoint));
    // Contents that were compared decide what is shared, so they must be those that are loaded.
    const bool has_changed = !match.contents.empty() &&
                             (tensors.content.first != contents[i].first ||
                              (contents[i].whole != ContentId() && tensors.content != contents[i]));
    if (has_changed)
      return fail(Code::kCorrupt, fmt::format("{}: {} changed while it was read: try again",
                                              checkpoint.directory(), kinds[i].name));
    contents[i] = tensors.content;
    ITIF_TRY(store(slot, i, kinds[i], tensors, packs_bias, !is_shared(i)));
  }
  const std::lock_guard lock(mutex_);
  contents_[slot] = std::move(contents);
  equal_.remove(slot);
  equal_.add(slot, contents_);
  return {};
}

Status WeightStore::store(uint32_t slot, size_t kind, const WeightKind& own, Tensors& tensors,
                          bool packs_bias, bool stores_rows) {
  std::vector<TensorView>& views = tensors.views;
  std::vector<float> zeros;
  for (TensorView& view : views) {
    if (view.data != nullptr) continue;
    zeros.resize(own.source_shape.elements());
    view = {reinterpret_cast<const std::byte*>(zeros.data()), DType::kF32, own.source_shape};
  }
  // Tables need no fill: lookups use only ids that the model has.
  const uint64_t missing =
      own.storage == Storage::kTable ? 0 : elements(kinds_[kind]) - elements(own);
  const std::vector<float> filling(missing, own.fill);
  if (missing > 0)
    views.push_back(
        {reinterpret_cast<const std::byte*>(filling.data()), DType::kF32, Shape{missing}});
  std::byte* target = slabs_[kind].at(slot);
  if (own.storage == Storage::kMatrix) {
    for (TensorView& view : views) view.shape = {view.shape.elements() / own.gemm.k, own.gemm.k};
    return pack_matrix(device_, kinds_[kind], views, target);
  }
  if (packs_bias)
    ITIF_TRY(device_.pack_bias(kinds_[kind - 1].gemm, views, slabs_[kind - 1].at(slot)));
  if (!stores_rows) return {};
  const DType type =
      own.storage == Storage::kTable ? device_.info().compute.activations : DType::kF32;
  for (const TensorView& view : views) {
    ITIF_TRY(device_.upload(view, type, target));
    target += view.shape.elements() * dtype_bytes(type);
  }
  return {};
}

void WeightStore::release(uint32_t slot) {
  const std::lock_guard lock(mutex_);
  release_locked(slot);
}

void WeightStore::release_locked(uint32_t slot) {
  CHECK(slot < num_holders_.size() && num_holders_[slot] > 0);
  if (--num_holders_[slot] > 0) return;
  for (auto& memory : memory_) memory->release(slot);
  contents_[slot].clear();
  equal_.remove(slot);
}

uint32_t WeightStore::num_holders(uint32_t slot) const {
  const std::lock_guard lock(mutex_);
  return num_holders_[slot];
}

uint64_t WeightStore::used_bytes() const {
  const std::lock_guard lock(mutex_);
  uint64_t bytes = 0;
  for (const auto& memory : memory_) bytes += memory->used_bytes();
  return bytes;
}

}  // namespace itif::model
