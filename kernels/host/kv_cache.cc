// Copies keys and values into and between the blocks of the cache, as bytes of any activation type.
#include <cstring>

#include "kernels/host/launch.h"

namespace itif::kernels::host {

void run(const AppendKv& args, const HostLaunch& launch) noexcept {
  const size_t element = dtype_bytes(launch.activation);
  const size_t vector_bytes = args.pool.hidden * element;
  const auto write = [&](const void* rows, size_t row, uint32_t kv_row, uint32_t is_value) {
    const std::byte* from = static_cast<const std::byte*>(rows) + row * args.row_stride * element;
    std::memcpy(args.pool.base + args.pool.offset(kv_row, args.layer, is_value) * element, from,
                vector_bytes);
  };
  parallel_rows(launch, static_cast<uint32_t>(args.kv_rows.size()), 64,
                [&](uint32_t begin, uint32_t end) {
                  for (uint32_t row = begin; row < end; ++row) {
                    if (args.kv_rows[row] == kNoKvRow) continue;
                    write(args.key, row, args.kv_rows[row], 0);
                    write(args.value, row, args.kv_rows[row], 1);
                  }
                });
}

void run(const CopyKv& args, const HostLaunch& launch) noexcept {
  const size_t element = dtype_bytes(launch.activation);
  const KvPool& pool = args.pool;
  parallel_rows(launch, static_cast<uint32_t>(args.copies.size()), 2,
                [&](uint32_t begin, uint32_t end) {
                  for (uint32_t i = begin; i < end; ++i) {
                    const KvCopy& copy = args.copies[i];
                    const size_t bytes = size_t{copy.num_tokens} * pool.hidden * element;
                    for (uint32_t layer = 0; layer < pool.num_layers; ++layer)
                      for (const uint32_t is_value : {0u, 1u}) {
                        const auto at = [&](uint32_t block) {
                          return pool.base +
                                 pool.offset(block * pool.block_tokens, layer, is_value) * element;
                        };
                        std::memcpy(at(copy.to), at(copy.from), bytes);
                      }
                  }
                });
}

}  // namespace itif::kernels::host
