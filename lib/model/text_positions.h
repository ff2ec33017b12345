// The row of the position table that each token of a text takes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "model/spec.h"

namespace itif::model {

// Numbers the tokens of one text in order, from BackboneSpec::position_base. The rows below it are
// unused, except the last, position_base − 1: padding ids inside a text take it, and do not advance
// the positions of later tokens. Its number is that of the padding id.
// Source: create_position_ids_from_input_ids() of transformers' RobertaEmbeddings.
class TextPositions {
 public:
  explicit TextPositions(const BackboneSpec& spec) noexcept : base_(spec.position_base) {}

  // Writes the rows of the text's next `count` ids to `rows`. `ids`: little-endian numbers of
  // `id_bytes` (2 or 4) each, at any address.
  void number(const std::byte* ids, size_t count, size_t id_bytes, uint32_t* rows) noexcept {
    for (size_t i = 0; i < count; ++i) {
      uint32_t id = 0;
      std::memcpy(&id, ids + i * id_bytes, id_bytes);
      const bool is_padding = base_ > 0 && id == base_ - 1;
      rows[i] = is_padding ? base_ - 1 : base_ + next_;
      next_ += is_padding ? 0 : 1;
    }
  }

 private:
  uint32_t base_;
  uint32_t next_ = 0;  // of the tokens that count
};

}  // namespace itif::model
