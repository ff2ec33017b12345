// Lays segments out in the flat arrays that operators take, rows end to end. The only padding is
// the plan's and, on a device that asks for it, that of a graph bucket (graph_buckets.h). A score
// matrix that segments of two ranges share includes the padding between the ranges.
//
// Peer input is checked against the model here. A segment that cannot run gets its status and takes
// no row; the others are unaffected.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backbone/family.h"
#include "runtime/admitted_tenant.h"
#include "runtime/batch/batch.h"
#include "runtime/graph_buckets.h"
#include "runtime/group.h"

namespace itif::runtime {

// Buffers are allocated once, for the options' largest batch.
class BatchLayout {
 public:
  // `flight_index`: the batch's index among those in flight. `buckets` and `modules` outlive the
  // layout.
  BatchLayout(const GroupOptions& options, const GraphBuckets& buckets,
              const model::ModuleNumbers& modules, uint32_t flight_index);

  // A segment that runs.
  struct Live {
    const BatchRequest* segment = nullptr;
    request::Request* request = nullptr;  // the segment's
    AdmittedTenant* tenant = nullptr;
    uint32_t first_row = 0;
  };

  // Checks every segment and lays out those that can run. `tenant_of(slot)` may be nullptr. Planned
  // calls keep the ranges of their segments that run. They and graph buckets exclude each other.
  // REQUIRES: as for EncoderGroup::begin.
  template <class TenantOf>
  void build(const Batch& batch, const TenantOf& tenant_of) noexcept {
    clear();
    for (const BatchRequest& segment : batch.segments)
      admit(segment, tenant_of(segment.request->slot));
    lay_out(batch.calls);
    sort_by_tenant();
  }
  // Lays out only padding rows, which no request owns. REQUIRES: `bucket` is one of the buckets.
  void build(const GraphBucket& bucket) noexcept;
  // Lays out requests that nobody sent, of token 0 or black pixels, for a pass whose results nobody
  // reads. `slot`: a weight slot. REQUIRES: within the options' limits; images have
  // spec.max_tokens() tokens.
  void build(uint32_t slot, const model::BackboneSpec& spec, uint32_t num_requests,
             uint32_t num_tokens);

  uint32_t flight_index() const noexcept { return flight_index_; }

  std::span<const Live> live() const noexcept { return live_; }
  // Indices into live(), by slot, then by row. A tenant's segments may be anywhere in a batch.
  std::span<const uint32_t> by_tenant() const noexcept { return by_tenant_; }
  backbone::Pass pass() const noexcept;
  // One per live(), then a bucket's empty ones.
  std::span<const kernels::SegmentRows> segments() const noexcept { return segments_; }
  // Rows that no segment asked for.
  uint32_t num_padding_rows() const noexcept { return num_rows_ - asked_rows_; }

 private:
  void clear() noexcept;
  void admit(const BatchRequest& segment, AdmittedTenant* tenant) noexcept;
  void lay_out(std::span<const plan::Call> calls) noexcept;
  void lay_out(Live& live) noexcept;
  void add_adapter(const Live& live) noexcept;
  void set_positions(const model::BackboneSpec& spec,
                     std::span<const kernels::IdPiece> text) noexcept;
  void pad_rows_to(uint32_t num_rows) noexcept;
  void fill_bucket() noexcept;
  void sort_by_tenant() noexcept;

  const uint32_t flight_index_;
  const uint32_t max_tokens_;
  const uint32_t max_requests_;
  const GraphBuckets& buckets_;
  const GraphBucket* bucket_ = nullptr;  // the batch's bucket; null: none
  bool has_token_types_ = false;
  std::vector<Live> live_;
  std::vector<uint32_t> by_tenant_;
  // Adjacent rows of one weight slot and mini-batch, without a bucket's padding.
  std::vector<kernels::RowRange> runs_;
  std::vector<uint32_t> run_segments_;                // of each run
  std::vector<uint32_t> run_calls_;                   // of each run: its planned call
  std::vector<kernels::SegmentRows> score_matrices_;  // empty: each segment has its own
  uint32_t score_matrix_ = plan::kOwnScores;          // number of the last row's
  uint32_t num_rows_ = 0, asked_rows_ = 0;
  size_t num_pieces_ = 0;
  uint32_t mini_batch_ = 0;  // of the last row
  std::vector<kernels::SegmentRows> segments_;
  std::vector<uint32_t> positions_;
  std::vector<uint8_t> token_types_;
  std::vector<kernels::IdPiece> pieces_;
  std::vector<std::byte> zeros_;              // payload of requests that nobody sent
  BytePiece zero_image_;                      // all of it
  std::vector<kernels::ImagePixels> images_;  // one per live_, for image models
  std::vector<kernels::RowRange> ranges_;
  std::vector<kernels::GemmCall> calls_;  // as planned; empty: none are
  const model::ModuleNumbers& modules_;
  std::vector<kernels::AdapterRows> adapters_;  // adjacent rows of one adapter
  std::vector<uint8_t> changed_kinds_;          // as backbone::PassAdapters'
};

}  // namespace itif::runtime
