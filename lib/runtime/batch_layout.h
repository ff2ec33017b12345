// From segments to the flat arrays that operators take: rows end to end, no padding but the plan's and, where the
// device asks for it, that of a form (batch_forms.h).
//
// This is where what a peer sent meets the model: a segment that cannot run gets its status here and
// takes no row; the others are unaffected.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backbone/family.h"
#include "runtime/batch_forms.h"
#include "runtime/group.h"
#include "runtime/tenant_entry.h"

namespace itif::runtime {

// Buffers are allocated once, for the options' largest batch.
class BatchLayout {
 public:
  // `place`: of the batch among those in flight. `forms` outlive it.
  BatchLayout(const GroupOptions& options, const BatchForms& forms, uint32_t place);

  // A segment that runs.
  struct Live {
    Segment* segment = nullptr;
    TenantEntry* tenant = nullptr;
    uint32_t first_row = 0;
  };

  // Checks every segment and lays out those that can run. `tenant_of(slot)` may be nullptr.
  // REQUIRES: as for Group::forward.
  template <class TenantOf>
  void build(std::span<Segment> segments, const TenantOf& tenant_of) noexcept {
    clear();
    for (Segment& segment : segments) admit(segment, tenant_of(segment.slot));
    lay_out();
    sort_by_tenant();
  }
  // Nothing but a form's padding. REQUIRES: one of the forms.
  void build(const BatchForm& form) noexcept;

  uint32_t place() const noexcept { return place_; }

  std::span<const Live> live() const noexcept { return live_; }
  // Of live(): by slot, then by row. A tenant's segments may stand anywhere in a batch.
  std::span<const uint32_t> by_tenant() const noexcept { return by_tenant_; }
  backbone::Pass pass() const noexcept;
  // One a live(), and a form's empty ones.
  std::span<const kernels::SegmentRows> segments() const noexcept { return segments_; }
  // Rows that no segment asked for.
  uint32_t num_padding_rows() const noexcept { return num_rows_ - asked_rows_; }

 private:
  void clear() noexcept;
  void admit(Segment& segment, TenantEntry* tenant) noexcept;
  void lay_out() noexcept;
  void place(Live& live) noexcept;
  void pad_rows_to(uint32_t num_rows) noexcept;
  void fill_form() noexcept;
  void sort_by_tenant() noexcept;

  const uint32_t place_;
  const uint32_t max_tokens_;
  const uint32_t max_requests_;
  const BatchForms& forms_;
  const BatchForm* form_ = nullptr;  // of the batch; null: it has none
  bool has_token_types_ = false;
  std::vector<Live> live_;
  std::vector<uint32_t> by_tenant_;
  // Rows of one slot and mini-batch that stand together, without a form's padding.
  std::vector<kernels::RowRange> runs_;
  std::vector<uint32_t> run_segments_;  // of each run
  uint32_t num_rows_ = 0, asked_rows_ = 0;
  size_t num_pieces_ = 0;
  uint32_t mini_batch_ = 0;  // of the last row
  std::vector<kernels::SegmentRows> segments_;
  std::vector<uint32_t> positions_;
  std::vector<uint8_t> token_types_;
  std::vector<kernels::IdPiece> pieces_;
  std::vector<kernels::ImagePixels> images_;  // one a live_, of an image model
  std::vector<kernels::RowRange> ranges_;
};

}  // namespace itif::runtime
