// Reads token ids directly from packets in host memory, one block per piece. One launch covers all
// packets of a batch, so that the bus has as many reads in flight as it can take. A thread issues
// kWords reads before it uses the first.
//
// Pieces are 4-byte aligned: u16 ids are read two at a time.
#include "kernels/cuda/in_place.h"
#include "kernels/cuda/number.h"
#include "kernels/cuda/operators.h"

namespace itif::kernels::cuda {
namespace {

constexpr uint32_t kThreads = 128;
constexpr uint32_t kWords = 8;  // in flight per thread

__device__ int32_t checked(uint32_t id, uint32_t vocab_size) {
  return id < vocab_size ? static_cast<int32_t>(id) : -1;
}

__global__ void __launch_bounds__(kThreads)
    gather_ids_kernel(const IdRun* pieces, int32_t* ids, uint32_t vocab_size) {
  const IdRun piece = pieces[blockIdx.x];
  const uint32_t bytes = piece.num_ids * (piece.is_wide ? 4 : 2), num_words = bytes / kBusWord;
  const InPlace from(piece.data, bytes);
  int32_t* to = ids + piece.first_row;
  // A last u16 is read alone: no read may go past the piece.
  const bool brings_last = bytes % kBusWord != 0 && threadIdx.x == 0;
  const uint32_t last = brings_last ? from.at<uint16_t>(num_words * kBusWord) : 0;
  // Words of the line before the piece. Their index wraps around, which skips them.
  const uint32_t ahead = from.in_line(0) / kBusWord;
  for (uint32_t first = threadIdx.x; first < ahead + num_words; first += kThreads * kWords) {
    uint32_t words[kWords];
#pragma unroll
    for (uint32_t w = 0; w < kWords; ++w) {
      const uint32_t i = first + w * kThreads - ahead;
      if (i < num_words) words[w] = from.at<uint32_t>(i * kBusWord);
    }
#pragma unroll
    for (uint32_t w = 0; w < kWords; ++w) {
      const uint32_t i = first + w * kThreads - ahead;
      if (i >= num_words) continue;
      if (piece.is_wide) {
        to[i] = checked(words[w], vocab_size);
      } else {
        to[2 * i] = checked(words[w] & 0xFFFF, vocab_size);
        to[2 * i + 1] = checked(words[w] >> 16, vocab_size);
      }
    }
  }
  if (brings_last) to[piece.num_ids - 1] = checked(last, vocab_size);
}

}  // namespace

void gather_ids(const Launcher& launch, const GatherIds& args, const IdRun* pieces,
                uint32_t num_pieces) {
  launch({.blocks = dim3(num_pieces), .threads = dim3(kThreads)}, gather_ids_kernel, pieces,
         args.ids, args.vocab_size);
}

}  // namespace itif::kernels::cuda
