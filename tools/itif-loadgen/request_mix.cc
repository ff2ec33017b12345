#include "request_mix.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

namespace itif::loadgen {
namespace {

constexpr uint32_t kPoolTokens = 1u << 16;
constexpr size_t kPoolImages = 16;

// Random pixels: u8 of any value, f32 in the range of normalised pixels.
std::vector<std::byte> random_image(const Options& options, Random& random) {
  std::vector<std::byte> payload(wire::image_payload_bytes(options.payload_kind, options.image));
  std::memcpy(payload.data(), &options.image, sizeof options.image);
  const std::span pixels = std::span(payload).subspan(sizeof options.image);
  if (options.payload_kind == wire::PayloadKind::kImageU8) {
    for (std::byte& pixel : pixels) pixel = static_cast<std::byte>(random.below(256));
  } else {
    for (size_t at = 0; at < pixels.size(); at += sizeof(float)) {
      const auto value = static_cast<float>(random.normal());
      std::memcpy(&pixels[at], &value, sizeof value);
    }
  }
  return payload;
}

std::vector<double> weights_of(const Options& options) {
  std::vector<double> weights;
  for (const Target& target : options.targets) weights.push_back(target.weight);
  return weights;
}

}  // namespace

WeightedChoice::WeightedChoice(std::span<const double> weights) : columns_(weights.size()) {
  const double mean =
      std::accumulate(weights.begin(), weights.end(), 0.0) / static_cast<double>(weights.size());
  std::vector<double> rest;  // unassigned probability of each column, scaled so that the mean is 1
  std::vector<uint32_t> small, large;
  for (uint32_t i = 0; i < weights.size(); ++i) {
    rest.push_back(weights[i] / mean);
    (rest[i] < 1 ? small : large).push_back(i);
  }
  while (!small.empty() && !large.empty()) {
    const uint32_t low = small.back();
    const uint32_t high = large.back();
    small.pop_back();
    columns_[low] = {.keep = rest[low], .alias = high};
    rest[high] -= 1 - rest[low];
    if (rest[high] < 1) {
      large.pop_back();
      small.push_back(high);
    }
  }
}

uint32_t WeightedChoice::pick(Random& random) const noexcept {
  const auto column = static_cast<uint32_t>(random.below(columns_.size()));
  return random.uniform() < columns_[column].keep ? column : columns_[column].alias;
}

uint32_t max_tokens(const Lengths& lengths) noexcept {
  switch (lengths.kind) {
    case Lengths::Kind::kFixed: return static_cast<uint32_t>(lengths.first);
    case Lengths::Kind::kUniform: return static_cast<uint32_t>(lengths.second);
    case Lengths::Kind::kNormal:
      return static_cast<uint32_t>(std::ceil(lengths.first + 6 * lengths.second));
  }
  return 1;
}

uint32_t draw_length(const Lengths& lengths, Random& random) noexcept {
  switch (lengths.kind) {
    case Lengths::Kind::kFixed: break;
    case Lengths::Kind::kUniform: {
      const auto least = static_cast<uint32_t>(lengths.first);
      const auto most = static_cast<uint32_t>(lengths.second);
      return least + static_cast<uint32_t>(random.below(most - least + 1));
    }
    case Lengths::Kind::kNormal: {
      const double drawn = std::round(lengths.first + lengths.second * random.normal());
      return static_cast<uint32_t>(
          std::clamp(drawn, 1.0, static_cast<double>(max_tokens(lengths))));
    }
  }
  return static_cast<uint32_t>(lengths.first);
}

uint32_t draw_budget_us(const Deadlines& deadlines, uint32_t num_tokens, Random& random) noexcept {
  uint64_t us = 0;
  switch (deadlines.kind) {
    case Deadlines::Kind::kNone: break;
    case Deadlines::Kind::kFixed: us = deadlines.first_us; break;
    case Deadlines::Kind::kUniform:
      us = deadlines.first_us + random.below(deadlines.second_us - deadlines.first_us + 1);
      break;
    case Deadlines::Kind::kByLength:
      us = deadlines.first_us + num_tokens * deadlines.second_us;
      break;
  }
  return static_cast<uint32_t>(us);
}

PayloadPool::PayloadPool(const Options& options) : options_(options) {
  if (options.payload_kind == wire::PayloadKind::kText) return;
  if (options.payload_kind == wire::PayloadKind::kImageU8 ||
      options.payload_kind == wire::PayloadKind::kImageF32) {
    Random random(options.seed);
    while (images_.size() < kPoolImages) images_.push_back(random_image(options, random));
    return;
  }
  token_bytes_ = options.payload_kind == wire::PayloadKind::kTokensU16 ? 2 : 4;
  const size_t count = size_t{kPoolTokens} + max_tokens(options.lengths);
  tokens_.resize(count * token_bytes_);
  Random random(options.seed);
  for (size_t i = 0; i < count; ++i) {
    const auto id = static_cast<uint32_t>(random.below(options.vocab));
    std::memcpy(tokens_.data() + i * token_bytes_, &id, token_bytes_);  // little-endian
  }
}

std::span<const std::byte> PayloadPool::draw(Random& random) const noexcept {
  if (!images_.empty()) return images_[random.below(images_.size())];
  if (token_bytes_ == 0) {
    const std::string& text = options_.texts[random.below(options_.texts.size())];
    return std::as_bytes(std::span(text));
  }
  const size_t length = draw_length(options_.lengths, random);
  const size_t start = random.below(kPoolTokens);
  return std::span(tokens_).subspan(start * token_bytes_, length * token_bytes_);
}

RequestMix::RequestMix(const Options& options, const PayloadPool& pool, uint64_t seed)
    : pool_(pool), deadlines_(options.deadlines), choice_(weights_of(options)), random_(seed) {}

RequestMix::Draw RequestMix::draw() noexcept {
  Draw draw{.target = choice_.pick(random_), .payload = pool_.draw(random_)};
  draw.num_tokens = pool_.num_tokens(draw.payload);
  draw.budget_us = draw_budget_us(deadlines_, draw.num_tokens, random_);
  return draw;
}

}  // namespace itif::loadgen
