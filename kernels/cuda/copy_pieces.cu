// A batch's results side by side in one run of memory, for one copy to the host: a row of blocks a piece.
#include "kernels/cuda/operators.h"

namespace itif::kernels::cuda {
namespace {

constexpr uint32_t kThreads = 256;
constexpr uint32_t kMostBlocks = 64;  // of a piece
constexpr uint32_t kWord = sizeof(uint32_t);

// Results are whole words: f32 and i32.
__global__ void copy_pieces_kernel(const CopyPiece* pieces, std::byte* to) {
  const CopyPiece piece = pieces[blockIdx.y];
  const auto* from = static_cast<const uint32_t*>(piece.from);
  auto* target = reinterpret_cast<uint32_t*>(to + piece.at);
  const uint32_t words = piece.bytes / kWord, step = gridDim.x * kThreads;
  for (uint32_t i = blockIdx.x * kThreads + threadIdx.x; i < words; i += step) target[i] = from[i];
}
__global__ void copy_bytes_kernel(const CopyPiece* pieces, std::byte* to) {
  const CopyPiece piece = pieces[blockIdx.y];
  const auto* from = static_cast<const std::byte*>(piece.from);
  const uint32_t step = gridDim.x * kThreads;
  for (uint32_t i = blockIdx.x * kThreads + threadIdx.x; i < piece.bytes; i += step)
    to[piece.at + i] = from[i];
}

}  // namespace

void copy_pieces(const Launcher& launch, const CopyPiece* pieces, uint32_t num_pieces,
                 uint32_t longest_bytes, bool are_words, std::byte* to) {
  const uint32_t blocks = div_up(longest_bytes, kThreads * kWord);
  launch({.blocks = dim3(blocks < kMostBlocks ? blocks : kMostBlocks, num_pieces),
          .threads = dim3(kThreads)},
         are_words ? copy_pieces_kernel : copy_bytes_kernel, pieces, to);
}

}  // namespace itif::kernels::cuda
