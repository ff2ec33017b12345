// Loops over the pieces on the caller's thread: a batch has a few thousand ids at most. Ids come
// from peers, so that each is checked against the vocabulary. The compiler vectorises the inner
// loops.
#include "kernels/host/launch.h"

namespace itif::kernels::host {
namespace {

template <class Id>
void gather_piece(const Id* from, uint32_t count, uint32_t vocab_size, int32_t* to) {
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t id = from[i];
    to[i] = id < vocab_size ? static_cast<int32_t>(id) : -1;
  }
}

}  // namespace

void run(const GatherIds& args, const HostLaunch&) noexcept {
  for (const IdPiece& piece : args.pieces) {
    int32_t* to = args.ids + piece.first_row;
    if (piece.id_bytes == 2)
      gather_piece(reinterpret_cast<const uint16_t*>(piece.data), piece.num_ids, args.vocab_size,
                   to);
    else
      gather_piece(reinterpret_cast<const uint32_t*>(piece.data), piece.num_ids, args.vocab_size,
                   to);
  }
}

}  // namespace itif::kernels::host
