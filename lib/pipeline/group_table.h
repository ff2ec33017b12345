// Maps the group numbers in tenant snapshots to groups, for the workers. Control clears an entry
// only when no reader holds a snapshot that names it.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "pipeline/group_stage.h"

namespace itif::pipeline {

class GroupTable {
 public:
  static constexpr uint16_t kMaxGroups = 32;

  GroupStage* find(uint16_t group) const noexcept {
    return group < kMaxGroups ? stages_[group].load(std::memory_order_acquire) : nullptr;
  }
  void set(uint16_t group, GroupStage* stage) noexcept {
    stages_[group].store(stage, std::memory_order_release);
  }

 private:
  std::array<std::atomic<GroupStage*>, kMaxGroups> stages_{};
};

}  // namespace itif::pipeline
