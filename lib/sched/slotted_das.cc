// TCB's Algorithm 2, "Slotted Online Deadline-Aware Scheduling Algorithm" (section 5.3): DAS, then
// a slot size for the whole batch (Choice::slot_tokens), for a planner whose attention works slot
// by slot.
//
// The slot size is the length of the longest utility-dominant request of all rows. A row of L
// tokens has ⌊L / slot size⌋ slots. First fit puts a row's requests into its slots in the order in
// which Algorithm 1 chose them, so that the utility-dominant ones come first. Requests that fit no
// slot keep waiting. The paper says "greedily"; the order and first fit are ours.
//
// A row that takes all waiting requests has no utility-dominant set. All its requests then count as
// dominant (das_rows.h), because leaving one out would gain nothing. Requests that another rule put
// into the batch (urgent.h, fair_shares.h) count as well. Urgent ones are never left out: if they
// do not fit such slots, each row is one slot.
#include <algorithm>
#include <span>
#include <vector>

#include "sched/das_rows.h"
#include "sched/ordered_policy.h"
#include "sched/row_slots.h"

namespace itif::sched {
namespace {

class SlottedDas final : public DasRows {
 public:
  explicit SlottedDas(const PolicyOptions& options)
      : DasRows(options), slots_(options.limits.max_requests) {
    places_.reserve(options.limits.max_requests);
  }

  // First fit may need more rows for fewer requests. If it now needs more than there are, the rows
  // and slots stay as they were.
  void close_gaps(const BatchLimits& limits, Choice& choice) noexcept override {
    // A batch of urgent requests only, which the order did not fill, has no slots.
    if (choice.slot_tokens == 0) return DasRows::close_gaps(limits, choice);
    places_.clear();
    slots_.begin(row_tokens(limits), choice.slot_tokens);
    uint32_t row = 0;
    for (const request::Request* request : choice.batch) {
      std::optional<uint32_t> slot = slots_.put(row, request->num_tokens);
      if (!slot && row + 1 < limits.rows.number) slot = slots_.put(++row, request->num_tokens);
      if (!slot) return;
      places_.push_back({row, *slot});
    }
    for (size_t i = 0; i < places_.size(); ++i) {
      choice.batch[i]->row = places_[i].row;
      choice.batch[i]->row_slot = places_[i].slot;
    }
  }

 protected:
  void fill(IndexFill& fill) noexcept override {
    const size_t num_urgent = fill.batch().size();
    fill_rows(fill);
    const uint32_t row_tokens = this->row_tokens(fill.limits());
    uint32_t slot_tokens = longest_dominant_tokens();
    const auto urgent = std::span(fill.batch()).first(num_urgent);
    for (const request::Request* request : urgent)
      slot_tokens = std::max(slot_tokens, request->num_tokens);
    slot_tokens = std::max(1u, slot_tokens);
    if (!begin_slots(urgent, row_tokens, slot_tokens)) {
      slot_tokens = std::max(row_tokens, slot_tokens);
      begin_slots(urgent, row_tokens, slot_tokens);
    }
    fill.finish([&](request::Request& request) { return put(request); });
    if (!fill.batch_is_empty()) fill.set_slot_tokens(slot_tokens);
    charge_shares(fill);
  }

 private:
  struct Place {
    uint32_t row, slot;
  };

  // Slots divide the planner's whole row, even if objectives allow fewer tokens.
  static uint32_t row_tokens(const BatchLimits& limits) noexcept {
    return limits.rows.have_length() ? limits.rows.tokens : limits.max_tokens;
  }
  // Begins the batch's slots and puts the urgent requests into them. Returns true if all fit.
  bool begin_slots(std::span<request::Request* const> urgent, uint32_t row_tokens,
                   uint32_t slot_tokens) noexcept {
    slots_.begin(row_tokens, slot_tokens);
    return std::ranges::all_of(urgent, [&](request::Request* request) { return put(*request); });
  }
  // Returns false if the request fits no slot of its row.
  bool put(request::Request& request) noexcept {
    const std::optional<uint32_t> slot = slots_.put(request.row, request.num_tokens);
    if (slot) request.row_slot = *slot;
    return slot.has_value();
  }

  RowSlots slots_;
  std::vector<Place> places_;  // of close_gaps()
};

}  // namespace

std::unique_ptr<IndexedOrder> make_slotted_das_order(const PolicyOptions& options) {
  return std::make_unique<SlottedDas>(options);
}

std::unique_ptr<BatchPolicy> make_slotted_das(const PolicyOptions& options) {
  return make_ordered_policy(make_slotted_das_order(options), options);
}

}  // namespace itif::sched
