// A request's token ids as the device gathers them: where they arrived (packet buffers), or as the
// executor prepared them. They are not copied on the way to the device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/args.h"
#include "request/request.h"
#include "runtime/input_pool.h"

namespace itif::runtime {

class RequestIds {
 public:
  // `prepared`: the request's prepared input; nullptr: none. Both outlive the object.
  RequestIds(const request::Request& request, const PreparedInput* prepared) noexcept
      : request_(request), prepared_(prepared && !prepared->ids.empty() ? prepared : nullptr) {}

  size_t num_pieces() const noexcept { return prepared_ ? 1 : request_.pieces.size(); }
  // Returns true if every piece holds an id, and all pieces hold one id per token. Anything else
  // would leave rows of a batch unwritten.
  bool cover_tokens() const noexcept;
  // Appends the pieces. The first id goes to the batch's row `first_row`, the others follow.
  void append_to(std::vector<kernels::IdPiece>& pieces, uint32_t first_row) const noexcept;

 private:
  uint8_t id_bytes() const noexcept {
    return request_.payload_kind == wire::PayloadKind::kTokensU32 ? 4 : 2;
  }

  const request::Request& request_;
  const PreparedInput* prepared_;  // nullptr: the ids are in the request's pieces
};

}  // namespace itif::runtime
