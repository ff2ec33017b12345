// An executor over models that share parts of one base. It records each GEMM's ranges, and knows
// which of them have equal weights by comparing the variants.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "plan/make_planner.h"
#include "runtime/batch/executor.h"
#include "support/sharing.h"

namespace itif::runtime {

class SharedGemms : public Sharing, protected CompletionSink {
 protected:
  using Ranges = std::vector<std::pair<uint32_t, uint32_t>>;  // rows and weight slot
  using Calls = std::vector<Ranges>;
  static constexpr plan::PlanLimits kLimits{.max_requests = 16, .max_rows = 200};
  static constexpr size_t kGemmsOfLayer = 4;

  SharedGemms() {
    tables_.device = tables_.backbone = "test";
    tables_.lengths = {1, 64};
    tables_.batches = tables_.sizes = {1, 16};
    tables_.counts = {2, 16};
    tables_.gemm_ns = {3e6, 5e6, 9e6, 1e8};
    tables_.batched_gemm_ns = {4e6, 4e7, 4e7, 4e8, 2e7, 2e8, 2e8, 2e9};
  }
  void complete(std::span<request::Request* const>) noexcept override {}

  // Admits a model of each variant to the slots from 0 on.
  void serve(const std::vector<Variant>& variants, bool shares_weights = true) {
    executor_.reset();
    stream_.reset();
    GroupOptions options = kOptions;
    options.max_tenants = static_cast<uint32_t>(variants.size());
    options.shares_weights = shares_weights;
    group_ = make_encoder_group(device_, spec(), options).value();
    directories_.clear();
    variants_ = variants;
    for (const Variant& variant : variants) directories_.push_back(make(variant));
    for (const std::string& directory : directories_) admit(directory);
    stream_ = device_.make_stream(group_->stream_limits()).value();
    executor_ = GroupExecutor::create(*group_, *stream_, clock_,
                                      {.limits = {.max_tokens = 200, .max_requests = 16}})
                    .value();
  }
  std::unique_ptr<plan::Planner> make_planner(const char* name) const {
    return plan::make_planner(name, {.limits = kLimits, .tables = &tables_}).value();
  }
  void use(const char* planner) { executor_->planner().replace(make_planner(planner)); }

  // Runs requests as one batch. Answers must be those of their tenants alone.
  void run(const std::vector<testing::TestRequest>& inputs) {
    testing::TestBatch batch(inputs);
    gemms_.clear();
    calls_.clear();
    device_.state().planned_gemms.clear();
    device_.state().gemms.clear();
    device_.state().on_gemm = [this](const kernels::GroupedGemm& gemm) {
      Ranges& ranges = gemms_.emplace_back();
      Calls& calls = calls_.emplace_back();
      for (const kernels::RowRange& range : gemm.ranges)
        ranges.emplace_back(range.num_rows, range.slot);
      auto next = ranges.begin();
      for (const kernels::GemmCall& call : gemm.schedule.calls()) {
        calls.emplace_back(next, next + call.num_ranges);
        next += call.num_ranges;
      }
    };
    for (request::Request& request : batch.requests()) executor_->submit(&request);
    BatchFigures figures;
    while (executor_->num_queued() > 0 || executor_->num_executing() > 0)
      executor_->step(*this, figures);
    figures_ = figures;
    device_.state().on_gemm = nullptr;
    const std::vector<testing::Answer> answers = batch.answers();
    for (size_t i = 0; i < inputs.size(); ++i) {
      ASSERT_TRUE(answers[i].ok()) << answers[i].detail;
      ASSERT_EQ(answers[i].bytes, alone_for(inputs[i].slot, inputs[i].ids)) << inputs[i].slot;
    }
  }
  const std::vector<std::byte>& alone_for(uint32_t slot, const std::vector<uint32_t>& ids) {
    std::vector<std::byte>& answer = alone_for_[{directories_[slot], ids}];
    if (!answer.empty()) return answer;
    testing::PlainDevice device;
    const auto group = make_encoder_group(device, spec(), kOptions).value();
    const uint32_t only = group->admit(directories_[slot], nullptr).value();
    const auto stream = device.make_stream(group->stream_limits()).value();
    answer = testing::run_batch(*group, *stream, {{.slot = only, .ids = ids}})[0].bytes;
    return answer;
  }

  uint32_t weight_slot(uint32_t slot) const { return group_->model(slot)->weight_slot; }
  plan::Item item_of(const testing::TestRequest& input) const {
    return {weight_slot(input.slot), static_cast<uint32_t>(input.ids.size()),
            group_->weight_order(weight_slot(input.slot))};
  }
  // Identifies a layer's weights; 0: the base's.
  uint64_t content(uint32_t of_weight_slot, uint32_t layer) const {
    for (uint32_t slot = 0; slot < variants_.size(); ++slot)
      if (group_->model(slot) != nullptr && weight_slot(slot) == of_weight_slot)
        return variants_[slot].tuned_layers.contains(layer) ? variants_[slot].seed : 0;
    ADD_FAILURE() << "no tenant has weight slot " << of_weight_slot;
    return 0;
  }
  // The ranges of a layer's GEMMs: equal neighbours are one, with the first one's slot.
  Ranges joined(const Ranges& ranges, uint32_t layer) const {
    Ranges joined;
    for (const auto& [rows, slot] : ranges)
      if (!joined.empty() && content(joined.back().second, layer) == content(slot, layer))
        joined.back().first += rows;
      else
        joined.emplace_back(rows, slot);
    return joined;
  }
  // The same for planned calls: neighbours that have one weight only, in several slots, are one.
  Calls joined(const Calls& planned, uint32_t layer) const {
    Calls joined;
    for (size_t first = 0, end; first < planned.size(); first = end) {
      Ranges all;
      for (end = first; end < planned.size(); ++end) {
        const bool is_equal = std::ranges::all_of(planned[end], [&](const auto& range) {
          return content(range.second, layer) == content(planned[first][0].second, layer);
        });
        if (!is_equal) break;
        all.insert(all.end(), planned[end].begin(), planned[end].end());
      }
      const bool has_one_slot = std::ranges::all_of(
          all, [&](const auto& range) { return range.second == all[0].second; });
      if (end > first && !has_one_slot) {
        uint32_t rows = 0;
        for (const auto& range : all) rows += range.first;
        joined.push_back({{rows, all[0].second}});
        continue;
      }
      end = std::max(end, first + 1);
      joined.insert(joined.end(), planned.begin() + static_cast<std::ptrdiff_t>(first),
                    planned.begin() + static_cast<std::ptrdiff_t>(end));
    }
    return joined;
  }

  plan::CostTables tables_;
  std::vector<Variant> variants_;         // by slot
  std::vector<std::string> directories_;  // by slot
  std::unique_ptr<device::Stream> stream_;
  VirtualClock clock_;
  std::unique_ptr<GroupExecutor> executor_;
  std::vector<Ranges> gemms_;  // of the last batch, four for each layer
  std::vector<Calls> calls_;   // the same by planned call; empty: none are planned
  BatchFigures figures_;
  std::map<std::pair<std::string, std::vector<uint32_t>>, std::vector<std::byte>> alone_for_;
};

}  // namespace itif::runtime
