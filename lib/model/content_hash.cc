#include "model/content_hash.h"

#include <sodium/core.h>
#include <sodium/randombytes.h>

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "model/ipsec_mb.h"

namespace itif::model {
namespace {

// Only for functions that queue nothing: any thread may call them.
IMB_MGR* library() {
  static const IpsecMb manager;
  return manager.get();
}

}  // namespace

struct ContentKey::Expanded {
  gcm_key_data data;
};

ContentKey::ContentKey(std::span<const std::byte, 16> key) {
  auto expanded = std::make_unique<Expanded>();
  IMB_GHASH_PRE(library(), key.data(), &expanded->data);
  expanded_ = std::move(expanded);
}

ContentKey::ContentKey()
    : ContentKey([] {
        CHECK(sodium_init() >= 0);
        std::array<std::byte, 16> key;
        randombytes_buf(key.data(), key.size());
        return key;
      }()) {}

ContentKey::~ContentKey() = default;

void ContentHash::add_blocks(std::span<const std::byte> blocks) {
  if (blocks.empty()) return;
  IMB_GHASH(library(), &key_.data, blocks.data(), blocks.size(), state_.tag.data(),
            state_.tag.size());
}

void ContentHash::add(std::span<const std::byte> bytes) {
  const size_t begun = num_bytes_ % kBlock;
  num_bytes_ += bytes.size();
  if (begun > 0) {
    const auto rest = bytes.first(std::min(bytes.size(), kBlock - begun));
    std::ranges::copy(rest, begun_.begin() + static_cast<ptrdiff_t>(begun));
    bytes = bytes.subspan(rest.size());
    if (begun + rest.size() < kBlock) return;
    add_blocks(begun_);
  }
  const size_t whole = bytes.size() / kBlock * kBlock;
  add_blocks(bytes.first(whole));
  std::ranges::copy(bytes.subspan(whole), begun_.begin());
}

void ContentHash::add(uint64_t number) {
  add(std::as_bytes(std::span(&number, 1)));
}

ContentId ContentHash::finish() {
  if (const size_t begun = num_bytes_ % kBlock; begun > 0) {
    std::fill(begun_.begin() + static_cast<ptrdiff_t>(begun), begun_.end(), std::byte{0});
    add_blocks(begun_);
  }
  std::array<std::byte, kBlock> end = {};
  std::memcpy(end.data(), &num_bytes_, sizeof num_bytes_);
  add_blocks(end);
  return state_;
}

}  // namespace itif::model
