#include "net/death_row.h"

#include <rte_mbuf.h>

namespace itif::net {

void DeathRow::flush() noexcept {
  if (count_ == 0) return;
  rte_pktmbuf_free_bulk(mbufs_.data(), static_cast<unsigned>(count_));
  count_ = 0;
}

}  // namespace itif::net
