// Token ids straight from packets in host memory, a block a piece: one launch for all packets of a batch, so that
// the bus has as many reads in flight as it can take.
//
// Pieces are 4-byte aligned: u16 ids are read two at a time, a warp's reads side by side.
#include "kernels/cuda/in_place.h"
#include "kernels/cuda/number.h"
#include "kernels/cuda/operators.h"

namespace itif::kernels::cuda {
namespace {

constexpr uint32_t kThreads = 128;

__device__ int32_t checked(uint32_t id, uint32_t vocab_size) {
  return id < vocab_size ? static_cast<int32_t>(id) : -1;
}

__global__ void gather_ids_kernel(const IdPiece* pieces, int32_t* ids, uint32_t vocab_size) {
  const IdPiece piece = pieces[blockIdx.x];
  int32_t* to = ids + piece.first_row;
  const auto* words = in_place<uint32_t>(piece.data, piece.num_ids * piece.id_bytes);
  if (piece.id_bytes == 4) {
    for (uint32_t i = threadIdx.x; i < piece.num_ids; i += kThreads)
      to[i] = checked(words[i], vocab_size);
    return;
  }
  for (uint32_t i = threadIdx.x; i < piece.num_ids / 2; i += kThreads) {
    const uint32_t two = words[i];
    to[2 * i] = checked(two & 0xFFFF, vocab_size);
    to[2 * i + 1] = checked(two >> 16, vocab_size);
  }
  // Nothing behind a piece is read.
  if (piece.num_ids % 2 == 1 && threadIdx.x == 0)
    to[piece.num_ids - 1] =
        checked(reinterpret_cast<const uint16_t*>(words)[piece.num_ids - 1], vocab_size);
}

}  // namespace

void gather_ids(const Launcher& launch, const GatherIds& args, const IdPiece* pieces,
                uint32_t num_pieces) {
  launch({.blocks = dim3(num_pieces), .threads = dim3(kThreads)}, gather_ids_kernel, pieces,
         args.ids, args.vocab_size);
}

}  // namespace itif::kernels::cuda
