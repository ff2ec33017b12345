#include "support/plain_device.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "device/stream/async_stream.h"
#include "support/plain_stream.h"

namespace itif::testing {
namespace {

struct PlainBuffer final : device::Buffer {
  PlainBuffer(std::shared_ptr<PlainDeviceState> owner, size_t size) : state(std::move(owner)) {
    data_ = static_cast<std::byte*>(std::calloc(std::max<size_t>(size, 1), 1));
    bytes_ = size;
    ++state->live_buffers;
    state->buffer_bytes += size;
  }
  ~PlainBuffer() override {
    std::free(data_);
    --state->live_buffers;
    state->buffer_bytes -= bytes_;
  }
  std::shared_ptr<PlainDeviceState> state;
};

struct PlainEntry final : device::SlabEntry {
  PlainEntry(std::shared_ptr<PlainDeviceState> owner, size_t size)
      : state(std::move(owner)), memory(size, std::byte{0xff}) {
    ++state->live_slots;
    state->slab_bytes += memory.size();
  }
  ~PlainEntry() override {
    --state->live_slots;
    state->slab_bytes -= memory.size();
  }
  std::shared_ptr<PlainDeviceState> state;
  std::vector<std::byte> memory;
};

// Slots without memory are poisoned, so that using them shows in the results.
struct PlainSlab final : device::SlabMemory {
  PlainSlab(std::shared_ptr<PlainDeviceState> owner, size_t slot_bytes, uint32_t max_slots)
      : state(std::move(owner)),
        poison(slot_bytes, std::byte{0xff}),
        entries(max_slots),
        offsets(max_slots) {
    slab_ = {poison.data(), slot_bytes, offsets.data()};
    max_slots_ = max_slots;
  }
  Status commit(uint32_t slot) override {
    CHECK(entries[slot] == nullptr);
    if (!state->may_allocate()) return fail(Code::kResourceExhausted, "no memory for a slot");
    hold(slot, std::make_shared<PlainEntry>(state, slab_.stride_bytes));
    return {};
  }
  bool can_share() const override { return state->slots_can_share; }
  std::shared_ptr<const device::SlabEntry> entry(uint32_t slot) const override {
    CHECK(can_share() && entries[slot] != nullptr);
    return entries[slot];
  }
  Status share(uint32_t slot, const std::shared_ptr<const device::SlabEntry>& entry) override {
    CHECK(can_share() && entries[slot] == nullptr);
    if (!state->may_share()) return fail(Code::kInternal, "a slot cannot be mapped");
    auto* shared = const_cast<PlainEntry*>(static_cast<const PlainEntry*>(entry.get()));
    CHECK(shared->state == state && shared->memory.size() == slab_.stride_bytes);
    hold(slot, {std::const_pointer_cast<device::SlabEntry>(entry), shared});
    return {};
  }
  void release(uint32_t slot) override {
    CHECK(entries[slot] != nullptr);
    entries[slot].reset();
    offsets[slot] = 0;
  }
  void hold(uint32_t slot, std::shared_ptr<PlainEntry> entry) {
    offsets[slot] = entry->memory.data() - slab_.base;
    entries[slot] = std::move(entry);
  }
  std::shared_ptr<PlainDeviceState> state;
  std::vector<std::byte> poison;
  std::vector<std::shared_ptr<PlainEntry>> entries;
  std::vector<ptrdiff_t> offsets;
};

}  // namespace

PlainDevice::PlainDevice(uint32_t num_threads) : state_(std::make_shared<PlainDeviceState>()) {
  info_.kind = "plain";
  info_.description = "plain loops";
  info_.num_threads = num_threads;
  info_.memory_bytes = 1u << 30;
}

Result<std::unique_ptr<device::Buffer>> PlainDevice::allocate(size_t bytes) {
  if (!state_->may_allocate()) return fail(Code::kResourceExhausted, "no memory for a buffer");
  return std::make_unique<PlainBuffer>(state_, bytes);
}

Result<std::unique_ptr<device::SlabMemory>> PlainDevice::reserve_slab(size_t slot_bytes,
                                                                      uint32_t max_slots) {
  return std::make_unique<PlainSlab>(state_, slot_bytes, max_slots);
}

Status PlainDevice::upload(const TensorView& source, DType type, void* target) {
  CHECK(type == DType::kF32);
  source.to_f32(static_cast<float*>(target));
  return {};
}

void PlainDevice::download(const void* source, size_t bytes, void* target) {
  std::memcpy(target, source, bytes);
}

Result<size_t> PlainDevice::packed_bytes(const device::GemmShape& shape) {
  return size_t{shape.n} * shape.k * sizeof(float);
}

Status PlainDevice::pack(const device::GemmShape& shape, std::span<const TensorView> weight,
                         void* target) {
  auto* out = static_cast<float*>(target);
  uint64_t rows = 0;
  for (const TensorView& view : weight) {
    CHECK(view.shape.rank == 2 && view.shape[1] == shape.k);
    view.to_f32(out + rows * shape.k);
    rows += view.shape[0];
  }
  CHECK(rows == shape.n);
  return {};
}

Status PlainDevice::pack_bias(const device::GemmShape& shape, std::span<const TensorView> bias,
                              void* target) {
  std::vector<float> values;
  for (const TensorView& view : bias) {
    values.resize(values.size() + view.shape.elements());
    view.to_f32(values.data() + values.size() - view.shape.elements());
  }
  CHECK(values.size() == shape.n);
  state_->packed_biases[target] = std::move(values);
  return {};
}

Result<std::unique_ptr<device::Stream>> PlainDevice::make_stream(
    const device::StreamLimits& limits, const device::StreamOptions& options) {
  auto stream = make_plain_stream(state_, limits);
  if (!options.is_async) return stream;
  return device::AsyncStream::make(std::move(stream), options);
}

}  // namespace itif::testing
