#include "workload/questions.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "base/check.h"
#include "base/random.h"

namespace itif::bench {
namespace {

constexpr size_t kBufferBytes = 2048;
constexpr size_t kBeforePayload = 128 + 72;  // headroom; headers from Ethernet to itif's
constexpr size_t kPiecePayload = 1368;
constexpr size_t kMemoryAlignment = 4096;
constexpr uint32_t kFirstOrdinaryId = 1000;  // past special tokens

template <class T>
void append(std::vector<std::byte>& bytes, T value) {
  const auto* from = reinterpret_cast<const std::byte*>(&value);
  bytes.insert(bytes.end(), from, from + sizeof value);
}

std::vector<std::byte> text_payload(Random& random, uint32_t vocab, uint32_t num_tokens) {
  std::vector<std::byte> bytes;
  const uint32_t ids = std::min(vocab, 1u << 16) - kFirstOrdinaryId;
  for (uint32_t i = 0; i < num_tokens; ++i)
    append(bytes, static_cast<uint16_t>(kFirstOrdinaryId + random.below(ids)));
  return bytes;
}

std::vector<std::byte> image_payload(Random& random, const model::ImageInput& image) {
  std::vector<std::byte> bytes;
  for (const uint32_t part : {image.height, image.width, image.channels, 0u})
    append(bytes, static_cast<uint16_t>(part));
  for (uint64_t i = 0; i < image.values(); ++i)
    bytes.push_back(static_cast<std::byte>(random.below(256)));
  return bytes;
}

}  // namespace

void Questions::Free::operator()(std::byte* data) const {
  std::free(data);
}

Questions::Questions(const model::BackboneSpec& spec, uint32_t num_tokens) {
  if (spec.takes_images()) kind_ = wire::PayloadKind::kImageU8;
  Random random(17);
  std::vector<std::vector<std::byte>> payloads;
  for (uint32_t i = 0; i < kNumber; ++i)
    payloads.push_back(spec.takes_images() ? image_payload(random, spec.image)
                                           : text_payload(random, spec.vocab, num_tokens));
  lay_out(payloads);
}

void Questions::lay_out(const std::vector<std::vector<std::byte>>& payloads) {
  payload_bytes_ = static_cast<uint32_t>(payloads.front().size());
  const size_t num_pieces = (payload_bytes_ + kPiecePayload - 1) / kPiecePayload;
  memory_bytes_ = kNumber * num_pieces * kBufferBytes;
  memory_bytes_ = (memory_bytes_ + kMemoryAlignment - 1) / kMemoryAlignment * kMemoryAlignment;
  memory_.reset(static_cast<std::byte*>(std::aligned_alloc(kMemoryAlignment, memory_bytes_)));
  CHECK(memory_ != nullptr);
  std::byte* buffer = memory_.get();
  for (const std::vector<std::byte>& payload : payloads) {
    std::vector<BytePiece>& pieces = pieces_.emplace_back();
    for (size_t at = 0; at < payload.size(); at += kPiecePayload, buffer += kBufferBytes) {
      const size_t bytes = std::min(kPiecePayload, payload.size() - at);
      std::memcpy(buffer + kBeforePayload, payload.data() + at, bytes);
      pieces.push_back({buffer + kBeforePayload, static_cast<uint32_t>(bytes)});
    }
  }
}

}  // namespace itif::bench
