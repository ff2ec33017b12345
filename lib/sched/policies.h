// Factories of the policies, one per file; scheduler.cc registers them by name.
#pragma once

#include <memory>

#include "sched/scheduler.h"

namespace itif::sched {

std::unique_ptr<Scheduler> make_fair();  // fair.cc
std::unique_ptr<Scheduler> make_fcfs();  // fcfs.cc

}  // namespace itif::sched
