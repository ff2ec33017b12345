#include "net/mempool.h"

#include <fmt/core.h>
#include <rte_errno.h>
#include <rte_mbuf.h>
#include <rte_mempool.h>

#include <algorithm>
#include <string_view>

namespace itif::net {
namespace {
constexpr uint32_t kMinMbufs = 64;
constexpr uint32_t kMinMbufBytes = 256;
constexpr uint32_t kMaxMbufBytes = UINT16_MAX - RTE_PKTMBUF_HEADROOM;
constexpr uint32_t kCache = 256;  // mbufs cached per lcore
// How mlx5 ends the names of pools whose memory it attaches to received packets.
constexpr std::string_view kAttachedPool = "-mprq";

using Chunks = std::vector<std::span<std::byte>>;

void add_chunks(rte_mempool* pool, Chunks& to) {
  rte_mempool_mem_iter(
      pool,
      [](rte_mempool*, void* chunks, rte_mempool_memhdr* chunk, unsigned) {
        static_cast<Chunks*>(chunks)->emplace_back(static_cast<std::byte*>(chunk->addr),
                                                   chunk->len);
      },
      &to);
}
}  // namespace

void MempoolFree::operator()(rte_mempool* pool) const noexcept {
  rte_mempool_free(pool);
}

uint64_t mempool_mb(const MempoolConfig& config) {
  const uint64_t element = sizeof(rte_mbuf) + RTE_PKTMBUF_HEADROOM + config.mbuf_bytes +
                           sizeof(rte_mempool_objhdr) + RTE_CACHE_LINE_SIZE;
  return (config.mbufs * element >> 20) + 2;  // 2: the pool's ring and caches
}

uint32_t mbufs_in_use(const rte_mempool& pool) noexcept {
  return rte_mempool_in_use_count(&pool);
}

std::vector<std::span<std::byte>> packet_memory(std::span<const Mempool> pools) {
  Chunks chunks;
  for (const Mempool& pool : pools) add_chunks(pool.get(), chunks);
  rte_mempool_walk(
      [](rte_mempool* pool, void* to) {
        if (std::string_view(pool->name).ends_with(kAttachedPool))
          add_chunks(pool, *static_cast<Chunks*>(to));
      },
      &chunks);
  return chunks;
}

Result<Mempool> create_mempool(const MempoolConfig& config) {
  if (config.mbufs < kMinMbufs)
    return fail(Code::kInvalidArgument,
                fmt::format("{} packet buffers are too few: at least {}", config.mbufs, kMinMbufs));
  if (config.mbuf_bytes < kMinMbufBytes || config.mbuf_bytes > kMaxMbufBytes)
    return fail(Code::kInvalidArgument,
                fmt::format("packet buffers of {} bytes: choose {} to {}", config.mbuf_bytes,
                            kMinMbufBytes, kMaxMbufBytes));
  rte_mempool* pool = rte_pktmbuf_pool_create(
      config.name.c_str(), config.mbufs, std::min(kCache, config.mbufs / 8), 0,
      static_cast<uint16_t>(config.mbuf_bytes + RTE_PKTMBUF_HEADROOM), config.socket);
  if (pool != nullptr) return Mempool(pool);
  const std::string what = fmt::format("packet buffers '{}' ({} of {} bytes, {} MB): ", config.name,
                                       config.mbufs, config.mbuf_bytes, mempool_mb(config));
  switch (rte_errno) {
    case EEXIST: return fail(Code::kAlreadyExists, what + "a pool of this name exists");
    case ENAMETOOLONG: return fail(Code::kInvalidArgument, what + "the name is too long");
    case ENOMEM:
    case ENOBUFS:  // only some of the buffers fit
      return fail(Code::kResourceExhausted,
                  what +
                      "not enough memory: raise vm.nr_hugepages (or -m with --no-huge), or lower "
                      "data_plane.mbufs");
    default: return fail(Code::kInternal, what + rte_strerror(rte_errno));
  }
}

}  // namespace itif::net
