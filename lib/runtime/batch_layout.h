// From segments to the flat arrays that operators take: rows end to end, no padding.
//
// This is where what a peer sent meets the model: a segment that cannot run gets its status here and
// takes no row; the others are unaffected.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backbone/family.h"
#include "runtime/group.h"
#include "runtime/tenant_entry.h"

namespace itif::runtime {

// Buffers are allocated once, for the options' largest batch.
class BatchLayout {
 public:
  // `place`: of the batch among those in flight.
  BatchLayout(const GroupOptions& options, uint32_t place);

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
    for (Segment& segment : segments) add(segment, tenant_of(segment.slot));
    sort_by_tenant();
  }

  uint32_t place() const noexcept { return place_; }

  std::span<const Live> live() const noexcept { return live_; }
  // Of live(): by slot, then by row. A tenant's segments may stand anywhere in a batch.
  std::span<const uint32_t> by_tenant() const noexcept { return by_tenant_; }
  backbone::Pass pass() const noexcept;
  std::span<const kernels::SegmentRows> segments() const noexcept { return segments_; }

 private:
  void clear() noexcept;
  void add(Segment& segment, TenantEntry* tenant) noexcept;
  void sort_by_tenant() noexcept;

  const uint32_t place_;
  const uint32_t max_tokens_;
  const uint32_t max_requests_;
  bool has_token_types_ = false;
  std::vector<Live> live_;
  std::vector<uint32_t> by_tenant_;
  uint32_t num_rows_ = 0;
  uint32_t mini_batch_ = 0;                     // of the last row
  std::vector<kernels::SegmentRows> segments_;  // one a live_
  std::vector<uint32_t> positions_;
  std::vector<uint8_t> token_types_;
  std::vector<kernels::IdPiece> pieces_;
  std::vector<kernels::ImagePixels> images_;  // one a live_, of an image model
  std::vector<kernels::RowRange> ranges_;
};

}  // namespace itif::runtime
