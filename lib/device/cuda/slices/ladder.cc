#include "device/cuda/slices/ladder.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/check.h"
#include "base/log.h"
#include "device/cuda/driver/entry_point.h"
#include "device/cuda/driver/error.h"

namespace itif::device::cuda {
namespace {

constexpr unsigned kGreenSince = 13000;  // the interface that this file is compiled against
constexpr const char* kNoGreen = "green contexts cannot be made";
constexpr const char* kNoStream = "cannot make a stream on a slice of the GPU";

}  // namespace

std::string_view name_of(SliceKind kind) {
  switch (kind) {
    case SliceKind::kNone: return "none";
    case SliceKind::kGreenContexts: return "green-contexts";
    case SliceKind::kPriorities: return "priorities";
  }
  return "?";
}

Result<std::unique_ptr<SliceLadder>> SliceLadder::open(int ordinal, std::string_view wanted) {
  using enum SliceKind;
  const bool is_auto = wanted == "auto";
  std::unique_ptr<SliceLadder> made(new SliceLadder(ordinal));
  if (wanted == name_of(kNone)) return made;
  if (!is_auto && wanted != name_of(kGreenContexts) && wanted != name_of(kPriorities))
    return fail(
        Code::kInvalidArgument,
        fmt::format("unknown slices '{}': auto, green-contexts, priorities or none", wanted));
  Status opened;
  if (is_auto || wanted == name_of(kGreenContexts)) {
    opened = made->open_green_contexts();
    if (is_auto && !opened)
      log::info("the GPU is divided by priorities: {}", opened.error().message);
  }
  if (wanted == name_of(kPriorities) || (is_auto && !opened)) opened = made->open_priorities();
  (void)cudaGetLastError();
  if (opened) return made;
  if (!is_auto)
    return fail(Code::kUnsupported, fmt::format("slices {} cannot be used: {}", wanted,
                                                std::move(opened.error().message)));
  log::info("the GPU is not divided: {}", opened.error().message);
  return made;
}

SliceLadder::~SliceLadder() {
  close_contexts();
}

Status SliceLadder::open_green_contexts() {
  ITIF_TRY(find_entry_point("cuDeviceGetDevResource", kGreenSince, driver_.get_resource));
  ITIF_TRY(find_entry_point("cuDevSmResourceSplitByCount", kGreenSince, driver_.split));
  ITIF_TRY(find_entry_point("cuDevResourceGenerateDesc", kGreenSince, driver_.describe));
  ITIF_TRY(find_entry_point("cuGreenCtxCreate", kGreenSince, driver_.create));
  ITIF_TRY(find_entry_point("cuGreenCtxDestroy", kGreenSince, driver_.destroy));
  ITIF_TRY(find_entry_point("cuGreenCtxStreamCreate", kGreenSince, driver_.make_stream));
  CUdevResource all{};
  ITIF_TRY(check(driver_.get_resource(ordinal_, &all, CU_DEV_RESOURCE_TYPE_SM), kNoGreen));
  const unsigned least = std::max(1u, all.sm.minSmPartitionSize);
  unsigned count = 0;
  ITIF_TRY(check(driver_.split(nullptr, &count, &all, nullptr, 0, least), kNoGreen));
  if (count < 2)
    return fail(Code::kUnsupported,
                fmt::format("{}: {} multiprocessors make no two partitions of {} or more", kNoGreen,
                            all.sm.smCount, least));
  std::vector<CUdevResource> partitions(count);
  CUdevResource rest{};
  ITIF_TRY(check(driver_.split(partitions.data(), &count, &all, &rest, 0, least), kNoGreen));
  partitions.resize(count);
  // A driver that cannot make all contexts may be able to make fewer.
  Status made;
  for (uint32_t num_steps = std::min(kMaxSteps, count); num_steps >= 2; num_steps /= 2) {
    made = make_contexts(partitions, num_steps);
    if (!made) continue;
    kind_ = SliceKind::kGreenContexts;
    num_steps_ = num_steps;
    return {};
  }
  return made;
}

// Makes a context for each run of steps but that of all.
Status SliceLadder::make_contexts(std::span<CUdevResource> partitions, uint32_t num_steps) {
  const auto begin_of = [&](uint32_t step) { return step * partitions.size() / num_steps; };
  for (uint32_t first = 0; first < num_steps; ++first) {
    for (uint32_t end = first + 1; end <= num_steps; ++end) {
      if (end - first == num_steps) continue;
      const auto run = partitions.subspan(begin_of(first), begin_of(end) - begin_of(first));
      Context made;
      for (const CUdevResource& partition : run) made.processors += partition.sm.smCount;
      CUdevResourceDesc description{};
      Status status = check(
          driver_.describe(&description, run.data(), static_cast<unsigned>(run.size())), kNoGreen);
      if (status)
        status =
            check(driver_.create(&made.context, description, ordinal_, CU_GREEN_CTX_DEFAULT_STREAM),
                  kNoGreen);
      if (!status) {
        close_contexts();
        return status;
      }
      contexts_.push_back(made);
    }
  }
  return {};
}

void SliceLadder::close_contexts() noexcept {
  for (const Context& one : contexts_) (void)driver_.destroy(one.context);
  contexts_.clear();
}

Status SliceLadder::open_priorities() {
  int least = 0, greatest = 0;
  ITIF_TRY(check(cudaDeviceGetStreamPriorityRange(&least, &greatest),
                 "the GPU does not tell its stream priorities"));
  if (greatest >= least) return fail(Code::kUnsupported, "the GPU has no stream priorities");
  kind_ = SliceKind::kPriorities;
  lowest_priority_ = least;
  num_steps_ = static_cast<uint32_t>(least - greatest) + 1;
  return {};
}

// Contexts are numbered by first step, then by count. Step 0 has none for the run of all steps.
uint32_t SliceLadder::slice_of(const Run& run) const {
  if (run.count == num_steps_) return 0;
  uint32_t before = 0;
  for (uint32_t first = 0; first < run.first; ++first)
    before += num_steps_ - first - (first == 0 ? 1 : 0);
  return before + run.count;
}

// Returns slices by rank: the smallest share has the lowest priority, equal shares have the same.
std::vector<uint32_t> SliceLadder::ranks_of(std::span<const double> percents) const {
  const std::set<double> different(percents.begin(), percents.end());
  std::vector<uint32_t> ranks;
  for (const double percent : percents) {
    const auto rank =
        static_cast<uint32_t>(std::distance(different.begin(), different.find(percent)));
    ranks.push_back(std::min(rank, num_steps_ - 1));
  }
  return ranks;
}

std::vector<uint32_t> SliceLadder::slices_of(std::span<const double> percents) const {
  switch (kind_) {
    case SliceKind::kNone: return std::vector<uint32_t>(percents.size());
    case SliceKind::kPriorities: return ranks_of(percents);
    case SliceKind::kGreenContexts: break;
  }
  std::vector<uint32_t> slices;
  for (const Run& run : place(percents, num_steps_)) slices.push_back(slice_of(run));
  return slices;
}

uint32_t SliceLadder::processors(uint32_t slice) const {
  return kind_ == SliceKind::kGreenContexts && slice > 0 ? contexts_.at(slice - 1).processors : 0;
}

std::vector<uint32_t> SliceLadder::processor_counts() const {
  std::set<uint32_t> counts;
  for (const Context& one : contexts_) counts.insert(one.processors);
  return {counts.begin(), counts.end()};
}

Result<cudaStream_t> SliceLadder::make_stream(uint32_t slice) const {
  cudaStream_t made = nullptr;
  (void)cudaSetDevice(ordinal_);  // any thread may be the first to need a stream
  if (slice == 0)
    ITIF_TRY(check(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking), kNoStream));
  else if (kind_ == SliceKind::kPriorities)
    ITIF_TRY(check(cudaStreamCreateWithPriority(&made, cudaStreamNonBlocking,
                                                lowest_priority_ - static_cast<int>(slice)),
                   kNoStream));
  else
    ITIF_TRY(check(
        driver_.make_stream(&made, contexts_.at(slice - 1).context, CU_STREAM_NON_BLOCKING, 0),
        kNoStream));
  return made;
}

}  // namespace itif::device::cuda
