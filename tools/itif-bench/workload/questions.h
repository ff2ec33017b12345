// A few different requests to a model, whose payloads lie in packet buffers as a worker's
// reassembly leaves them: pieces of 1,384 bytes, each in a buffer of 2 KiB behind its headers.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/byte_piece.h"
#include "model/spec.h"
#include "wire/header.h"

namespace itif::bench {

class Questions {
 public:
  static constexpr uint32_t kNumber = 8;

  // Texts of `num_tokens` random ids, or random images for a model that takes images.
  Questions(const model::BackboneSpec& spec, uint32_t num_tokens);

  wire::PayloadKind kind() const { return kind_; }
  uint32_t payload_bytes() const { return payload_bytes_; }  // of each
  std::span<const BytePiece> pieces(uint32_t question) const { return pieces_[question]; }
  // All packet buffers, for Device::register_host_memory().
  std::span<const std::byte> memory() const { return {memory_.get(), memory_bytes_}; }

 private:
  void lay_out(const std::vector<std::vector<std::byte>>& payloads);

  struct Free {
    void operator()(std::byte* data) const;
  };
  wire::PayloadKind kind_ = wire::PayloadKind::kTokensU16;
  uint32_t payload_bytes_ = 0;
  size_t memory_bytes_ = 0;
  std::unique_ptr<std::byte, Free> memory_;
  std::vector<std::vector<BytePiece>> pieces_;  // of each question
};

}  // namespace itif::bench
