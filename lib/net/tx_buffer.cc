#include "net/tx_buffer.h"

#include <rte_mbuf.h>

#include <algorithm>
#include <numeric>

namespace itif::net {

TxBuffer::~TxBuffer() {
  rte_pktmbuf_free_bulk(mbufs_.data(), static_cast<unsigned>(count_));
}

bool TxBuffer::push(rte_mbuf* mbuf) noexcept {
  if (count_ == kCapacity && offer() == 0) {
    rte_pktmbuf_free(mbuf);
    ++dropped_;
    return false;
  }
  bytes_[count_] = rte_pktmbuf_pkt_len(mbuf);
  mbufs_[count_++] = mbuf;
  return true;
}

size_t TxBuffer::flush(uint64_t now_ns) noexcept {
  if (count_ == 0) return 0;
  const size_t sent = offer();
  if (sent > 0 || sink_ != nullptr) return sent;
  if (refused_since_ns_ == kNever) {
    refused_since_ns_ = now_ns;
  } else if (now_ns - refused_since_ns_ >= kMaxRefusalNs) {
    rte_pktmbuf_free_bulk(mbufs_.data(), static_cast<unsigned>(count_));
    dropped_ += count_;
    count_ = 0;
    refused_since_ns_ = kNever;
  }
  return 0;
}

size_t TxBuffer::offer() noexcept {
  uint16_t sent;
  if (sink_ == nullptr) {
    sent = port_->tx_burst(queue_, std::span(mbufs_).first(count_));
    sent_ += sent;
    sent_bytes_ += std::accumulate(bytes_.begin(), bytes_.begin() + sent, uint64_t{0});
  } else {
    sent = sink_->send(std::span(mbufs_).first(count_));
  }
  count_ -= sent;
  if (sent > 0) {
    refused_since_ns_ = kNever;
    std::copy_n(mbufs_.begin() + sent, count_, mbufs_.begin());
    std::copy_n(bytes_.begin() + sent, count_, bytes_.begin());
  }
  return sent;
}

}  // namespace itif::net
