#include "model/weight_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "model/packed_matrix.h"

namespace itif::model {
Result<std::unique_ptr<WeightStore>> WeightStore::create(device::Device& device,
                                                         std::vector<WeightKind> kinds,
                                                         uint32_t max_slots, WeightPool* pool) {
  ITIF_ASSIGN(WeightSlabs slabs, WeightSlabs::reserve(device, std::move(kinds), max_slots));
  return std::unique_ptr<WeightStore>(new WeightStore(device, std::move(slabs), max_slots, pool));
}

WeightStore::WeightStore(device::Device& device, WeightSlabs slabs, uint32_t max_slots,
                         WeightPool* pool)
    : device_(device),
      own_pool_(pool == nullptr ? std::make_unique<WeightPool>() : nullptr),
      pool_(pool == nullptr ? *own_pool_ : *pool),
      slabs_(std::move(slabs)),
      entries_(max_slots),
      num_holders_(max_slots),
      contents_(max_slots),
      equal_(slabs_.kinds(), max_slots) {}

WeightStore::~WeightStore() {
  const std::lock_guard lock(pool_.mutex());
  for (uint32_t slot = 0; slot < entries_.size(); ++slot) drop_entries(slot);
}

WeightStore::Match WeightStore::no_match() const {
  return {.slot = {},
          .same = std::vector<std::shared_ptr<WeightPool::Entry>>(slabs_.num_slabs()),
          .new_bytes = slabs_.slot_bytes(),
          .contents = {},
          .claim = nullptr};
}

WeightStore::Match WeightStore::match_slot(uint32_t slot) {
  Match match = no_match();
  match.slot = slot;
  match.new_bytes = 0;
  const std::lock_guard lock(pool_.mutex());
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
      const std::lock_guard lock(pool_.mutex());
      pool_.end_claim(ended->beginnings);
      for (const uint32_t slot : ended->slots) release_locked(slot);
    }
    delete ended;
  };
  const auto* made = new Claim(std::move(claim));
  pool_.add_claim(made->beginnings);
  return {made, end};
}

WeightPool::Claim WeightStore::beginnings_of(const WeightContents& contents) const {
  WeightPool::Claim beginnings;
  for (size_t slab = 0; slab < slabs_.num_slabs(); ++slab)
    if (slabs_.memory(slab).can_share()) beginnings.push_back(slabs_.beginning(slab, contents));
  // All weights, which tenants of the store share on any device.
  EntryBeginning& all = beginnings.emplace_back();
  all.layout = {reinterpret_cast<uintptr_t>(this)};
  for (const KindContent& content : contents) all.first.push_back(content.first);
  std::ranges::sort(beginnings);
  return beginnings;
}

Result<WeightStore::Match> WeightStore::match(const std::vector<WeightKind>& kinds,
                                              const Checkpoint& checkpoint, const OnKind& on_kind) {
  CHECK(kinds.size() == this->kinds().size());
  Match match = no_match();
  WeightContents& contents = match.contents;
  contents.resize(kinds.size());
  for (size_t i = 0; i < kinds.size(); ++i) {
    ITIF_ASSIGN(contents[i].first, hash_kind(pool_.key(), kinds[i], checkpoint, kFirstBytes));
  }
  Claim claim{.beginnings = beginnings_of(contents), .slots = {}};
  std::vector<std::vector<std::shared_ptr<WeightPool::Entry>>> likely(slabs_.num_slabs());
  {
    std::unique_lock lock(pool_.mutex());
    match.has_waited = pool_.wait_for_claims(lock, claim.beginnings);
    if (match.has_waited) return match;
    for (uint32_t slot = 0; slot < contents_.size(); ++slot)
      if (std::ranges::equal(contents_[slot], contents, {}, &KindContent::first,
                             &KindContent::first))
        claim.slots.push_back(slot);
    for (size_t slab = 0; slab < slabs_.num_slabs(); ++slab)
      if (slabs_.memory(slab).can_share())
        likely[slab] = pool_.find(slabs_.beginning(slab, contents));
    match.claim = make_claim(std::move(claim));
  }
  const std::vector<uint32_t>& slots = match.claim->slots;
  if (slots.empty() && std::ranges::all_of(likely, &decltype(likely)::value_type::empty))
    return match;
  for (size_t i = 0; i < kinds.size(); ++i) {
    if (on_kind) on_kind(i);
    bool is_likely = !slots.empty();
    for (size_t slab = 0; slab < likely.size() && !is_likely; ++slab)
      is_likely = !likely[slab].empty() && slabs_.counts(i, slab);
    if (is_likely) {
      ITIF_ASSIGN(contents[i].whole, hash_kind(pool_.key(), kinds[i], checkpoint, UINT64_MAX));
    }
  }
  const std::lock_guard lock(pool_.mutex());
  for (const uint32_t slot : slots)
    if (!match.slot && contents_[slot] == contents) match.slot = slot;
  match.new_bytes = 0;
  for (size_t slab = 0; slab < likely.size() && !match.slot; ++slab) {
    const EntryContent content = slabs_.content(slab, contents);
    const auto same = std::ranges::find(likely[slab], content, &WeightPool::Entry::content);
    if (same != likely[slab].end())
      match.same[slab] = *same;
    else
      match.new_bytes += slabs_.entry_bytes(slab);
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
  for (size_t i = 0; i < slabs_.num_slabs(); ++i) {
    device::SlabMemory& memory = slabs_.memory(i);
    std::shared_ptr<WeightPool::Entry> entry = match.same[i];
    Status taken = entry ? memory.share(slot, entry->memory) : memory.commit(slot);
    if (!taken) {
      drop_entries(slot);
      return std::unexpected(std::move(taken.error()));
    }
    if (!entry)
      entry = std::make_shared<WeightPool::Entry>(memory.can_share() ? memory.entry(slot) : nullptr,
                                                  slabs_.entry_bytes(i));
    pool_.add_holder(entry, used_bytes_);
    entries_[slot].push_back(std::move(entry));
  }
  num_holders_[slot] = 1;
  equal_.add(slot, contents_);
  return slot;
}

Result<uint32_t> WeightStore::acquire() {
  const std::lock_guard lock(pool_.mutex());
  return take(no_match());
}

Result<uint32_t> WeightStore::add(const Match& match, const std::vector<WeightKind>& kinds,
                                  const Checkpoint& checkpoint, const OnKind& on_kind) {
  uint32_t slot = 0;
  {
    const std::lock_guard lock(pool_.mutex());
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
    const std::lock_guard lock(pool_.mutex());
    CHECK(slot < num_holders_.size() && num_holders_[slot] == 1 && contents_[slot].empty());
  }
  return fill(slot, no_match(), kinds, checkpoint, on_kind);
}

uint64_t WeightStore::loading_bytes(const Match& match, const std::vector<WeightKind>& kinds,
                                    const Checkpoint& checkpoint) const {
  if (match.slot) return 0;
  uint64_t most = 0;
  for (size_t i = 0; i < kinds.size(); ++i) {
    if (match.same[slabs_.slab_of(i)] != nullptr) continue;
    uint64_t bytes = 0;
    for (const Source& source : kinds[i].sources)
      if (!source.names.empty())
        if (const TensorEntry* tensor = checkpoint.find(checkpoint.choose(source.names)))
          bytes += tensor->end - tensor->begin;
    if (kinds[i].storage == Storage::kMatrix)
      bytes += elements(this->kinds()[i]) * dtype_bytes(device_.info().compute.weights);
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
  const DType stored = own.storage == Storage::kMatrix ? compute.weights
                       : own.storage == Storage::kTable || slabs_.is_bias(kind)
                           ? compute.activations
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
  read.content = content_of(pool_.key(), own, read.views);
  return read;
}

Status WeightStore::fill(uint32_t slot, const Match& match, const std::vector<WeightKind>& kinds,
                         const Checkpoint& checkpoint, const OnKind& on_kind) {
  CHECK(kinds.size() == this->kinds().size());
  const auto is_shared = [&](size_t kind) { return match.same[slabs_.slab_of(kind)] != nullptr; };
  WeightContents contents = match.contents;
  contents.resize(kinds.size());
  for (size_t i = 0; i < kinds.size(); ++i) {
    CHECK(kinds[i].storage == this->kinds()[i].storage &&
          elements(kinds[i]) <= elements(this->kinds()[i]));
    if (on_kind) on_kind(i);
    const bool packs_bias = slabs_.is_packed_bias(i) && !is_shared(i - 1);
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
  const std::lock_guard lock(pool_.mutex());
  for (size_t slab = 0; slab < slabs_.num_slabs(); ++slab)
    if (!match.same[slab] && entries_[slot][slab]->memory != nullptr)
      pool_.publish(entries_[slot][slab], slabs_.content(slab, contents));
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
      own.storage == Storage::kTable ? 0 : elements(this->kinds()[kind]) - elements(own);
  const std::vector<float> filling(missing, own.fill);
  if (missing > 0)
    views.push_back(
        {reinterpret_cast<const std::byte*>(filling.data()), DType::kF32, Shape{missing}});
  std::byte* target = slab(kind).at(slot);
  if (own.storage == Storage::kMatrix) {
    for (TensorView& view : views) view.shape = {view.shape.elements() / own.gemm.k, own.gemm.k};
    return pack_matrix(device_, this->kinds()[kind], views, target);
  }
  if (packs_bias)
    ITIF_TRY(device_.pack_bias(this->kinds()[kind - 1].gemm, views, slab(kind - 1).at(slot)));
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
  const std::lock_guard lock(pool_.mutex());
  release_locked(slot);
}

void WeightStore::release_locked(uint32_t slot) {
  CHECK(slot < num_holders_.size() && num_holders_[slot] > 0);
  if (--num_holders_[slot] > 0) return;
  drop_entries(slot);
  contents_[slot].clear();
  equal_.remove(slot);
}

void WeightStore::drop_entries(uint32_t slot) {
  for (size_t slab = 0; slab < entries_[slot].size(); ++slab) {
    pool_.remove_holder(entries_[slot][slab], used_bytes_);
    slabs_.memory(slab).release(slot);
  }
  entries_[slot].clear();
}

uint32_t WeightStore::num_holders(uint32_t slot) const {
  const std::lock_guard lock(pool_.mutex());
  return num_holders_[slot];
}

}  // namespace itif::model
