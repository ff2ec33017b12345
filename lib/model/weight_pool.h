// The weights of all groups of a device by content, so that groups, too, store equal weights once.
// A weight store per group (weight_store.h) takes entries from it and adds those that it loads.
//
// An entry is the memory of one slot in one slab, and has the slots that hold it: of one or several
// stores. It counts for the store that has held it longest, so that the sum over the stores is the
// memory that the device has given. The last holder frees it, also if the store that loaded it is
// gone.
//
// The tensors of heads are entries, too.
//
// Loads of weights that may be equal happen one after another, also in different groups: each
// claims the beginnings of its weights while it compares and loads.
//
// Threads: any, with mutex() held where a function requires it. The stores' own slots are guarded
// by the same mutex, so that there is no order of locks. It is held while memory is taken or freed,
// but not while files are read. The pool outlives its stores.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "device/device.h"
#include "model/content_hash.h"
#include "model/weight_contents.h"

namespace itif::model {

class WeightPool {
 public:
  // Bytes of the entries that count for a store. Written with mutex() held, read without it.
  using Account = std::atomic<uint64_t>;
  struct Entry {
    std::shared_ptr<const device::SlabEntry> memory = {};  // null: slots of this size share nothing
    uint64_t bytes = 0;
    EntryContent content = {};           // empty: unknown; nobody finds the entry
    std::vector<Account*> holders = {};  // one per slot, in the order in which they came
    // A head's tensor (head.h), which is no slot of a slab. Then `memory` is null.
    std::unique_ptr<const device::Buffer> buffer = nullptr;
  };
  // Sorted beginnings that a load claims.
  using Claim = std::vector<EntryBeginning>;

  const ContentKey& key() const { return key_; }
  std::mutex& mutex() { return mutex_; }

  // The functions below REQUIRE mutex().

  // Returns the entries with holders that begin like this.
  std::vector<std::shared_ptr<Entry>> find(const EntryBeginning& beginning) const;
  // Sets the content of an entry, so that find() returns it. REQUIRES: it has a holder.
  void publish(const std::shared_ptr<Entry>& entry, EntryContent content);
  void add_holder(const std::shared_ptr<Entry>& entry, Account& account);
  // REQUIRES: the account is a holder's.
  void remove_holder(const std::shared_ptr<Entry>& entry, Account& account);

  // Waits until no other claim has a beginning in common with this one. Returns false if it did not
  // wait. `lock` holds mutex().
  bool wait_for_claims(std::unique_lock<std::mutex>& lock, const Claim& claim);
  // `claim` stays valid until its end.
  void add_claim(const Claim& claim) { claims_.push_back(&claim); }
  void end_claim(const Claim& claim);
  // Returns the number of loads in wait_for_claims(). For tests.
  uint32_t num_waiting() const { return num_waiting_; }

 private:
  const ContentKey key_;
  std::mutex mutex_;  // guards the members below
  std::condition_variable claim_ended_;
  std::vector<const Claim*> claims_;
  uint32_t num_waiting_ = 0;
  std::multimap<EntryBeginning, std::shared_ptr<Entry>> entries_;  // with content and holders
};

}  // namespace itif::model
