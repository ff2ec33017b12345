// Heads on the device: comparing and loading their tensors.
#include <iterator>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "model/checkpoint.h"
#include "model/head.h"

namespace itif::model {
namespace {

EntryContent content_of(const Shape& shape, const ContentId& id) {
  EntryContent content;
  content.beginning.layout = {0};  // entries of slabs begin with their stride
  for (size_t i = 0; i < static_cast<size_t>(shape.rank); ++i)
    content.beginning.layout.push_back(shape.dims[i]);
  content.beginning.first = {id};
  return content;
}

// Calls use(linear, checkpoint of its tensors) for each linear layer, in the order of loading.
template <class Use>
Status for_each_linear(const HeadSpec& spec, const Checkpoint& checkpoint, const Use& use) {
  for (const auto* linears : {&spec.pooler, &spec.classifier, &spec.dense})
    for (const LinearSpec& linear : *linears) {
      if (linear.directory.empty()) {
        ITIF_TRY(use(linear, checkpoint));
        continue;
      }
      ITIF_ASSIGN(const Checkpoint own, Checkpoint::open(linear.directory));
      ITIF_TRY(use(linear, own));
      ITIF_TRY(own.unchanged());
    }
  return {};
}

// The tensor's type and bytes.
Result<ContentId> hash_tensor(const WeightPool& pool, const Checkpoint& checkpoint,
                              const std::string& name, const Shape& shape) {
  ContentHash hash(pool.key());
  if (const TensorEntry* entry = checkpoint.find(name); entry != nullptr && entry->dtype)
    hash.add(uint64_t{1} + static_cast<uint64_t>(*entry->dtype));
  ITIF_TRY(checkpoint.scan(name, shape, UINT64_MAX,
                           [&](std::span<const std::byte> bytes) { hash.add(bytes); }));
  return hash.finish();
}
ContentId hash_tensor(const WeightPool& pool, const TensorView& view) {
  ContentHash hash(pool.key());
  hash.add(uint64_t{1} + static_cast<uint64_t>(view.dtype));
  hash.add(std::span(view.data, view.bytes()));
  return hash.finish();
}

// Loads tensors one by one.
class TensorLoader {
 public:
  TensorLoader(device::Device& device, const HeadMemory* memory)
      : device_(device), memory_(memory) {}

  Result<HeadTensor> load(const Checkpoint& checkpoint, const std::string& name,
                          const Shape& shape) {
    const bool shares = memory_ != nullptr && !memory_->match.same.empty();
    std::shared_ptr<WeightPool::Entry> entry;
    if (shares) entry = memory_->match.same[next_++];
    EntryContent content;
    if (entry == nullptr) {
      ITIF_ASSIGN(const HostTensor tensor, checkpoint.read(name, shape));
      ITIF_ASSIGN(std::unique_ptr<device::Buffer> buffer, device_.allocate(shape.elements() * 4));
      ITIF_TRY(device_.upload(tensor.view, DType::kF32, buffer->data()));
      bytes_ += buffer->bytes();
      if (memory_ == nullptr)
        return HeadTensor(buffer.release(), std::default_delete<const device::Buffer>());
      if (shares) content = content_of(shape, hash_tensor(memory_->pool, tensor.view));
      entry = std::make_shared<WeightPool::Entry>();
      entry->bytes = buffer->bytes();
      entry->buffer = std::move(buffer);
    } else {
      bytes_ += entry->bytes;
    }
    return hold(std::move(entry), std::move(content));
  }
  size_t bytes() const { return bytes_; }

 private:
  // `content`: empty if the entry has it, or shares nothing.
  HeadTensor hold(std::shared_ptr<WeightPool::Entry> entry, EntryContent content) const {
    const std::shared_ptr<WeightPool::Entry> loaded = entry;  // freed without the lock
    WeightPool& pool = memory_->pool;
    WeightPool::Account& account = memory_->account;
    const std::lock_guard lock(pool.mutex());
    bool is_new = content != EntryContent();
    if (is_new)
      // Another head's load may have been faster.
      if (const auto equal = pool.find(content.beginning); !equal.empty()) {
        entry = equal.front();
        is_new = false;
      }
    pool.add_holder(entry, account);
    if (is_new) pool.publish(entry, std::move(content));
    const device::Buffer* const buffer = entry->buffer.get();
    return {buffer, [&pool, &account, entry = std::move(entry)](const device::Buffer*) {
              const std::lock_guard lock(pool.mutex());
              pool.remove_holder(entry, account);
            }};
  }

  device::Device& device_;
  const HeadMemory* const memory_;
  size_t next_ = 0;  // into HeadMatch::same
  size_t bytes_ = 0;
};

}  // namespace

uint64_t head_bytes(const HeadSpec& spec) {
  uint64_t bytes = 0;
  for (const auto* linears : {&spec.pooler, &spec.classifier, &spec.dense})
    for (const LinearSpec& linear : *linears)
      bytes += sizeof(float) * linear.n * (uint64_t{linear.k} + (linear.bias.empty() ? 0 : 1));
  return bytes;
}

Result<HeadMatch> match_head(WeightPool& pool, const HeadSpec& spec, const Checkpoint& checkpoint) {
  HeadMatch match;
  const auto compare = [&](const Checkpoint& of, const std::string& name,
                           const Shape& shape) -> Status {
    ITIF_ASSIGN(const ContentId id, hash_tensor(pool, of, name, shape));
    const EntryContent content = content_of(shape, id);
    const std::lock_guard lock(pool.mutex());
    const auto equal = pool.find(content.beginning);
    match.same.push_back(equal.empty() ? nullptr : equal.front());
    if (equal.empty()) match.new_bytes += shape.elements() * sizeof(float);
    return {};
  };
  ITIF_TRY(for_each_linear(
      spec, checkpoint, [&](const LinearSpec& linear, const Checkpoint& of) -> Status {
        ITIF_TRY(compare(of, linear.weight, {linear.n, linear.k}));
        return linear.bias.empty() ? Status() : compare(of, linear.bias, {linear.n});
      }));
  return match;
}

Result<Head> load_head(device::Device& device, const HeadSpec& spec, const Checkpoint& checkpoint,
                       const HeadMemory* memory) {
  Head head;
  head.spec = spec;
  TensorLoader loader(device, memory);
  std::vector<Linear> all;
  ITIF_TRY(for_each_linear(
      spec, checkpoint, [&](const LinearSpec& linear, const Checkpoint& of) -> Status {
        Linear& loaded = all.emplace_back();
        loaded.n = linear.n;
        loaded.k = linear.k;
        loaded.activation = linear.activation;
        ITIF_ASSIGN(loaded.weight, loader.load(of, linear.weight, {linear.n, linear.k}));
        if (!linear.bias.empty()) {
          ITIF_ASSIGN(loaded.bias, loader.load(of, linear.bias, {linear.n}));
        }
        return {};
      }));
  auto next = std::make_move_iterator(all.begin());
  const auto take = [&](const std::vector<LinearSpec>& specs, std::vector<Linear>& linears) {
    linears.assign(next, next + static_cast<std::ptrdiff_t>(specs.size()));
    next += static_cast<std::ptrdiff_t>(specs.size());
  };
  take(spec.pooler, head.pooler);
  take(spec.classifier, head.classifier);
  take(spec.dense, head.dense);
  head.bytes = loader.bytes();
  return head;
}

}  // namespace itif::model
