#include "support/plain_device.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "device/slab_places.h"
#include "device/stream/async_stream.h"
#include "support/plain_stream.h"

namespace itif::testing {
namespace {

struct PlainBuffer final : device::Buffer {
  PlainBuffer(std::shared_ptr<PlainDeviceState> owner, size_t size) : state(std::move(owner)) {
    data_ = static_cast<std::byte*>(std::calloc(std::max<size_t>(size, 1), 1));
    bytes_ = size;
    ++state->live_buffers;
  }
  ~PlainBuffer() override {
    std::free(data_);
    --state->live_buffers;
  }
  std::shared_ptr<PlainDeviceState> state;
};

// Poisons uncommitted and released slots, so that using them shows in the results.
struct PlainSlab final : device::SlabMemory {
  PlainSlab(std::shared_ptr<PlainDeviceState> owner, size_t slot_bytes, uint32_t max_slots)
      : state(std::move(owner)),
        memory(slot_bytes * max_slots, std::byte{0xff}),
        places(max_slots) {
    slab_ = {memory.data(), slot_bytes, places.data()};
    max_slots_ = max_slots;
  }
  ~PlainSlab() override {
    state->live_slots -= places.num_taken();
    state->slab_bytes -= places.num_taken() * slab_.stride_bytes;
  }
  Status commit(uint32_t slot) override {
    if (!state->may_allocate()) return fail(Code::kResourceExhausted, "no memory for a slot");
    places.take(slot);
    ++state->live_slots;
    state->slab_bytes += slab_.stride_bytes;
    return {};
  }
  uint64_t used_bytes() const override { return places.num_taken() * slab_.stride_bytes; }
  bool can_share() const override { return state->slots_can_share; }
  Status share(uint32_t slot, uint32_t with) override {
    CHECK(can_share());
    places.share(slot, with);
    return {};
  }
  void release(uint32_t slot) override {
    const auto place = places.release(slot);
    if (!place) return;
    --state->live_slots;
    state->slab_bytes -= slab_.stride_bytes;
    std::memset(slab_.base + *place * slab_.stride_bytes, 0xff, slab_.stride_bytes);
  }
  std::shared_ptr<PlainDeviceState> state;
  std::vector<std::byte> memory;
  device::SlabPlaces places;
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
