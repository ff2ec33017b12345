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
constexpr const char* kNoLimit = "the GPU does not answer";
constexpr const char* kNoStream = "cannot make a stream on a slice of the GPU";

}  // namespace

std::string_view name_of(SliceKind kind) {
  switch (kind) {
    case SliceKind::kNone: return "none";
    case SliceKind::kGreenContexts: return "green-contexts";
    case SliceKind::kMps: return "mps";
    case SliceKind::kPriorities: return "priorities";
  }
  return "?";
}

Result<std::unique_ptr<SliceLadder>> SliceLadder::open(int ordinal, const SliceOptions& options) {
  using enum SliceKind;
  const bool is_auto = options.wanted == "auto";
  std::unique_ptr<SliceLadder> made(new SliceLadder(ordinal));
  if (options.wanted == name_of(kNone)) return made;
  std::string why;  // the kinds before do not work
  for (const SliceKind kind : {kGreenContexts, kMps, kPriorities}) {
    if (!is_auto && options.wanted != name_of(kind)) continue;
    const Status opened = made->open_kind(kind, options);
    (void)cudaGetLastError();
    if (opened) {
      if (!why.empty()) log::info("the GPU is divided by {}: {}", name_of(kind), why);
      return made;
    }
    if (!is_auto)
      return fail(Code::kUnsupported, fmt::format("slices {} cannot be used: {}", options.wanted,
                                                  opened.error().message));
    why += fmt::format("{}{}: {}", why.empty() ? "" : "; ", name_of(kind), opened.error().message);
  }
  if (!is_auto)
    return fail(Code::kInvalidArgument,
                fmt::format("unknown slices '{}': auto, green-contexts, mps, priorities or none",
                            options.wanted));
  log::info("the GPU is not divided: {}", why);
  return made;
}

Status SliceLadder::open_kind(SliceKind kind, const SliceOptions& options) {
  Status opened;
  switch (kind) {
    case SliceKind::kNone: break;
    case SliceKind::kGreenContexts: opened = open_green_contexts(); break;
    case SliceKind::kMps: opened = open_mps(options); break;
    case SliceKind::kPriorities: opened = open_priorities(); break;
  }
  if (opened) kind_ = kind;
  return opened;
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
            check(driver_.create(&made.green, description, ordinal_, CU_GREEN_CTX_DEFAULT_STREAM),
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
  for (const Context& one : contexts_)
    if (one.green != nullptr) (void)driver_.destroy(one.green);
  contexts_.clear();
}

Status SliceLadder::open_mps(const SliceOptions& options) {
  if (!options.needs_one_context.empty())
    return fail(Code::kUnsupported, options.needs_one_context);
  int num_processors = 0, has_pools = 0;
  ITIF_TRY(check(cudaDeviceGetAttribute(&num_processors, cudaDevAttrMultiProcessorCount, ordinal_),
                 kNoLimit));
  ITIF_TRY(check(cudaDeviceGetAttribute(&has_pools, cudaDevAttrMemoryPoolsSupported, ordinal_),
                 kNoLimit));
  // Other memory belongs to the context that allocates it.
  if (has_pools == 0) return fail(Code::kUnsupported, "the GPU has no memory pools");
  Status made;
  for (uint32_t num_steps = kMaxMpsSteps; num_steps >= 2; num_steps /= 2) {
    made = make_limited_contexts(static_cast<uint32_t>(num_processors), num_steps);
    if (made) {
      num_steps_ = num_steps;
      return {};
    }
    close_contexts();
  }
  return made;
}

// Makes a context for each run of steps but that of all.
Status SliceLadder::make_limited_contexts(uint32_t num_processors, uint32_t num_steps) {
  for (uint32_t first = 0; first < num_steps; ++first)
    for (uint32_t count = 1; first + count <= num_steps; ++count) {
      if (count == num_steps) continue;
      ITIF_ASSIGN(auto made,
                  LimitedContext::make(ordinal_, std::max(1u, num_processors * count / num_steps)));
      const uint32_t processors = made->processors();
      if (processors >= num_processors)
        return fail(Code::kUnsupported,
                    fmt::format("the driver gives a context of {}/{} of {} multiprocessors {}",
                                count, num_steps, num_processors, processors));
      contexts_.push_back({.green = nullptr, .limited = std::move(made), .processors = processors});
    }
  return {};
}

Status SliceLadder::open_priorities() {
  int least = 0, greatest = 0;
  ITIF_TRY(check(cudaDeviceGetStreamPriorityRange(&least, &greatest),
                 "the GPU does not tell its stream priorities"));
  if (greatest >= least) return fail(Code::kUnsupported, "the GPU has no stream priorities");
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
    case SliceKind::kGreenContexts:
    case SliceKind::kMps: break;
  }
  std::vector<uint32_t> slices;
  for (const Run& run : place(percents, num_steps_)) slices.push_back(slice_of(run));
  return slices;
}

uint32_t SliceLadder::processors(uint32_t slice) const {
  return has_contexts() && slice > 0 ? contexts_.at(slice - 1).processors : 0;
}

std::shared_ptr<const LimitedContext> SliceLadder::context(uint32_t slice) const {
  return kind_ == SliceKind::kMps && slice > 0 ? contexts_.at(slice - 1).limited : nullptr;
}

std::vector<uint32_t> SliceLadder::processor_counts() const {
  std::set<uint32_t> counts;
  for (const Context& one : contexts_) counts.insert(one.processors);
  return {counts.begin(), counts.end()};
}

Result<cudaStream_t> SliceLadder::make_stream(uint32_t slice) const {
  cudaStream_t made = nullptr;
  if (kind_ == SliceKind::kPriorities && slice > 0)
    ITIF_TRY(check(cudaStreamCreateWithPriority(&made, cudaStreamNonBlocking,
                                                lowest_priority_ - static_cast<int>(slice)),
                   kNoStream));
  else if (kind_ == SliceKind::kGreenContexts && slice > 0)
    ITIF_TRY(
        check(driver_.make_stream(&made, contexts_.at(slice - 1).green, CU_STREAM_NON_BLOCKING, 0),
              kNoStream));
  else
    ITIF_TRY(check(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking), kNoStream));
  return made;
}

}  // namespace itif::device::cuda
