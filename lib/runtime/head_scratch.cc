#include "runtime/head_scratch.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace itif::runtime {

HeadScratch::Size HeadScratch::size_of(const model::HeadSpec& head) {
  Size size;
  for (const model::LinearSpec& dense : head.dense) size.request_floats += packed(dense.n);
  if (head.classifier.empty()) return size;
  const uint64_t labels = head.labels.size();
  if (head.kind == model::HeadKind::kTokenClassification) {
    size.token_floats = packed(labels);
  } else {
    size.request_floats += packed(labels);
    size.labels = labels;
  }
  return size;
}

uint64_t HeadScratch::bytes_of(const Size& size, const GroupOptions& options) {
  return (options.max_requests * size.request_floats + options.max_tokens * size.token_floats) *
         sizeof(float);
}

uint64_t HeadScratch::bytes_of(const model::HeadSpec& head, const GroupOptions& options) {
  return bytes_of(size_of(head), options);
}

HeadScratch::Size HeadScratch::needed() const {
  Size most;
  for (const Size& head : heads_)
    most = {.request_floats = std::max(most.request_floats, head.request_floats),
            .token_floats = std::max(most.token_floats, head.token_floats),
            .labels = std::max(most.labels, head.labels)};
  return most;
}

uint64_t HeadScratch::added_bytes(const model::HeadSpec& head) const {
  const Size own = size_of(head);
  const std::lock_guard lock(mutex_);
  Size all = needed();
  if (all.holds(own)) return 0;
  all = {.request_floats = std::max(all.request_floats, own.request_floats),
         .token_floats = std::max(all.token_floats, own.token_floats)};
  return bytes_of(all, options_);
}

Result<std::unique_ptr<HeadScratch::Memory>> HeadScratch::allocate(const Size& size) const {
  auto memory = std::make_unique<Memory>();
  memory->size = size;
  if (const uint64_t bytes = bytes_of(size, options_); bytes > 0) {
    ITIF_ASSIGN(memory->outputs, device_.allocate(bytes));
  }
  for (std::vector<float>& logits : memory->host_logits)
    logits.resize(options_.max_requests * size.labels);
  memory->classes.resize(size.labels);
  return memory;
}

Status HeadScratch::add(const model::HeadSpec& head) {
  const std::lock_guard lock(mutex_);
  heads_.push_back(size_of(head));
  const Memory* current = current_.load(std::memory_order_relaxed);
  const Size size = needed();
  if ((current == nullptr ? Size() : current->size).holds(size)) return {};
  auto memory = allocate(size);
  if (!memory) {
    heads_.pop_back();
    return std::unexpected(std::move(memory.error()));
  }
  replace(std::move(*memory));
  return {};
}

void HeadScratch::remove(const model::HeadSpec& head) {
  const std::lock_guard lock(mutex_);
  const auto it = std::ranges::find(heads_, size_of(head));
  CHECK(it != heads_.end());
  heads_.erase(it);
  free_unheld();
  const Memory* current = current_.load(std::memory_order_relaxed);
  const Size size = needed();
  if (current == nullptr || current->size == size) return;
  if (size == Size()) return replace(nullptr);
  // Without memory for the smaller one, the larger one stays.
  if (auto memory = allocate(size)) replace(std::move(*memory));
}

void HeadScratch::replace(std::unique_ptr<Memory> memory) {
  if (memory != nullptr) bytes_ += memory->bytes();
  std::unique_ptr<Memory> old(current_.exchange(memory.release()));
  if (old != nullptr) replaced_.push_back(std::move(old));
  free_unheld();
}

void HeadScratch::free_unheld() {
  std::erase_if(replaced_, [&](const std::unique_ptr<Memory>& memory) {
    for (const std::atomic<Memory*>& held : held_)
      if (held.load() == memory.get()) return false;
    bytes_ -= memory->bytes();
    return true;
  });
}

// A thread that replaces the memory after the second load sees that it is held.
HeadScratch::Memory& HeadScratch::hold(uint32_t flight_index) noexcept {
  Memory* memory = current_.load();
  for (;;) {
    held_[flight_index].store(memory);
    Memory* const current = current_.load();
    if (current == memory) break;
    memory = current;
  }
  CHECK(memory != nullptr);
  return *memory;
}

}  // namespace itif::runtime
