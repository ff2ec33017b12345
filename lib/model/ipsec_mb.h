// The functions of libipsec-mb for this CPU, and its queue of messages.
#pragma once

#include <intel-ipsec-mb.h>

#include <cstdlib>

namespace itif::model {

// One thread at a time may use the queue. Functions that queue nothing may be called by any thread.
class IpsecMb {
 public:
  IpsecMb() noexcept : manager_(alloc_mb_mgr(0)) {
    if (manager_ == nullptr) std::abort();  // no memory
    init_mb_mgr_auto(manager_, nullptr);
  }
  ~IpsecMb() { free_mb_mgr(manager_); }
  IpsecMb(const IpsecMb&) = delete;
  IpsecMb& operator=(const IpsecMb&) = delete;
  IMB_MGR* get() const noexcept { return manager_; }

 private:
  IMB_MGR* manager_;
};

}  // namespace itif::model
