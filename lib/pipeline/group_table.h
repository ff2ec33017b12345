// Maps the group numbers in tenant snapshots to the groups' inboxes, for the workers. Control
// clears an entry only when no reader holds a snapshot that names it.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "pipeline/group_inbox.h"

namespace itif::pipeline {

class GroupTable {
 public:
  static constexpr uint16_t kMaxGroups = 32;

  GroupInbox* find(uint16_t group) const noexcept {
    return group < kMaxGroups ? inboxes_[group].load(std::memory_order_acquire) : nullptr;
  }
  void set(uint16_t group, GroupInbox* inbox) noexcept {
    inboxes_[group].store(inbox, std::memory_order_release);
  }

 private:
  std::array<std::atomic<GroupInbox*>, kMaxGroups> inboxes_{};
};

}  // namespace itif::pipeline
