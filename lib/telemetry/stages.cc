#include "telemetry/stages.h"

namespace itif::telemetry {

const char* stage_name(Stage stage) noexcept {
  switch (stage) {
    case Stage::kReassembly: return "reassembly";
    case Stage::kVerify: return "verify";
    case Stage::kIntake: return "intake";
    case Stage::kQueue: return "queue";
    case Stage::kPlan: return "plan";
    case Stage::kLaunch: return "launch";
    case Stage::kCompute: return "compute";
    case Stage::kRespond: return "respond";
    case Stage::kSend: return "send";
    case Stage::kTotal: return "total";
    case Stage::kExpire: return "expire";
    case Stage::kCount: break;
  }
  return "?";
}

bool StageHistograms::publish() noexcept {
  const std::unique_lock lock(published_mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return false;
  published_ = live_;  // equal sizes: copies in place, allocates nothing
  return true;
}

void StageHistograms::merge_into(Set& into) const {
  const std::lock_guard lock(published_mutex_);
  for (size_t i = 0; i < kNumStages; ++i) into[i].merge(published_[i]);
}

}  // namespace itif::telemetry
