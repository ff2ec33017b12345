#include "runtime/batch/batch_layout.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "model/text_positions.h"
#include "runtime/request_ids.h"
#include "runtime/result_bytes.h"
#include "wire/payload.h"

namespace itif::runtime {
namespace {

using wire::PayloadKind;
using wire::StatusCode;

std::span<const uint8_t> token_types_of(const BatchRequest& segment) noexcept {
  if (segment.prepared == nullptr) return {};
  return segment.prepared->token_types;
}

bool has_image(const request::Request& request) noexcept {
  return request.payload_kind == PayloadKind::kImageU8 ||
         request.payload_kind == PayloadKind::kImageF32;
}

// Returns the pixels where they arrived, or the resized ones.
kernels::ImagePixels image_of(const BatchRequest& segment) noexcept {
  if (segment.prepared) return {.pieces = {&segment.prepared->pixels_piece, 1}};
  const bool is_f32 = segment.request->payload_kind == PayloadKind::kImageF32;
  return {.pieces = segment.request->pieces,
          .skip_bytes = sizeof(wire::ImagePrefix),
          .value_bytes = static_cast<uint8_t>(is_f32 ? 4 : 1)};
}

// Returns true if the pieces hold exactly one image of the model's size.
bool covers(const kernels::ImagePixels& image, const model::ImageInput& input) noexcept {
  uint64_t bytes = 0;
  for (const BytePiece& piece : image.pieces) bytes += piece.bytes;
  return bytes == image.skip_bytes + input.values() * image.value_bytes;
}

void refuse(request::Request& request, StatusCode status, const char* detail) noexcept {
  request.status = status;
  request.detail = detail;
}

void check_tokens(const BatchRequest& segment, const model::TenantModel& model) noexcept {
  request::Request& request = *segment.request;
  const std::span<const uint8_t> token_types = token_types_of(segment);
  if (has_image(request)) {
    refuse(request, StatusCode::kUnsupportedKind, "the model takes token ids, not images");
  } else if (request.num_tokens == 0) {
    refuse(request, StatusCode::kMalformed, "the request has no tokens");
  } else if (request.num_tokens > model.max_tokens) {
    refuse(request, StatusCode::kTooLong, "the request has more tokens than the model takes");
  } else if (!RequestIds(request, segment.prepared).cover_tokens()) {
    refuse(request, StatusCode::kMalformed,
           "the pieces of token ids do not cover the request's tokens");
  } else if (!token_types.empty() && (token_types.size() != request.num_tokens ||
                                      std::ranges::any_of(token_types, [&](uint8_t t) {
                                        return t >= std::max(1u, model.spec.type_vocab);
                                      }))) {
    refuse(request, StatusCode::kMalformed, "the model has no such token type");
  }
}

void check_image(const BatchRequest& segment, const model::TenantModel& model) noexcept {
  request::Request& request = *segment.request;
  if (!has_image(request))
    return refuse(request, StatusCode::kUnsupportedKind, "the model takes images, not token ids");
  const kernels::ImagePixels image = image_of(segment);
  if (image.value_bytes == 1 && !model.images) {
    refuse(request, StatusCode::kUnsupportedKind, "the model takes f32 pixels only");
  } else if (request.num_tokens != model.spec.max_tokens() || !covers(image, model.spec.image)) {
    refuse(request, StatusCode::kMalformed, "the pixels do not have the model's image size");
  }
}

// Sets the request's status; true if it can run.
bool check(const BatchRequest& segment, const model::TenantModel* model) noexcept {
  request::Request& request = *segment.request;
  request.status = StatusCode::kOk;
  request.detail = "";
  request.result = {};
  request.result_kind_out = request.result_kind;
  if (!model) {
    refuse(request, StatusCode::kNotAdmitted, "the tenant has no model in this group");
    return false;
  }
  if (model->spec.takes_images())
    check_image(segment, *model);
  else
    check_tokens(segment, *model);
  const model::HeadSpec& head = model->head.spec;
  if (request.status == StatusCode::kOk && !supports(head, request.result_kind))
    refuse(request, StatusCode::kUnsupportedKind, "the model has no head for this kind of result");
  if (request.result_kind == wire::ResultKind::kDefault)
    request.result_kind_out = default_result_kind(head);
  request.result_rows = result_rows(head, request.result_kind_out, request.num_tokens);
  if (request.status == StatusCode::kOk &&
      result_bytes(head, model->spec.hidden, request.result_kind_out, request.num_tokens) >
          wire::kMaxTotalBytes)
    refuse(request, StatusCode::kTooLong, "the result would be longer than a response can be");
  return request.status == StatusCode::kOk;
}

}  // namespace

BatchLayout::BatchLayout(const GroupOptions& options, const GraphBuckets& buckets,
                         const model::ModuleNumbers& modules, uint32_t flight_index)
    : flight_index_(flight_index),
      max_tokens_(options.max_tokens),
      max_requests_(options.max_requests),
      buckets_(buckets),
      modules_(modules),
      changed_kinds_(modules.first().size() - 1) {
  size_t segments = max_requests_, ranges = max_requests_, images = max_requests_;
  size_t pieces = max_tokens_;  // a piece holds at least one id
  for (const GraphBucket& bucket : buckets_.all()) {
    segments = std::max<size_t>(segments, bucket.num_segments);
    ranges = std::max<size_t>(ranges, bucket.num_ranges);
    pieces = std::max<size_t>(pieces, bucket.num_pieces);
    images = std::max<size_t>(images, bucket.num_images);
  }
  live_.reserve(max_requests_);
  by_tenant_.reserve(max_requests_);
  runs_.reserve(max_requests_);
  run_segments_.reserve(max_requests_);
  run_calls_.reserve(max_requests_);
  calls_.reserve(max_requests_);
  score_matrices_.reserve(segments);
  segments_.reserve(segments);
  positions_.reserve(max_tokens_);
  token_types_.reserve(max_tokens_);
  pieces_.reserve(pieces);
  images_.reserve(images);
  ranges_.reserve(ranges);  // a tenant may occur more than once
  adapters_.reserve(std::bit_ceil(max_requests_));
}

void BatchLayout::clear() noexcept {
  bucket_ = nullptr;
  has_token_types_ = false;
  live_.clear();
  runs_.clear();
  run_segments_.clear();
  run_calls_.clear();
  calls_.clear();
  score_matrices_.clear();
  score_matrix_ = plan::kOwnScores;
  num_rows_ = asked_rows_ = 0;
  num_pieces_ = 0;
  segments_.clear();
  positions_.clear();
  token_types_.clear();
  pieces_.clear();
  images_.clear();
  ranges_.clear();
  adapters_.clear();
}

void BatchLayout::admit(const BatchRequest& segment, AdmittedTenant* tenant) noexcept {
  if (!check(segment, tenant ? &tenant->model : nullptr)) return;
  const request::Request& request = *segment.request;
  const uint32_t rows = std::max(segment.num_rows, request.num_tokens);
  CHECK(live_.size() < max_requests_ && rows <= max_tokens_ - asked_rows_);
  live_.push_back({&segment, segment.request, tenant, 0});
  if (!tenant->model.spec.takes_images())
    num_pieces_ += RequestIds(request, segment.prepared).num_pieces();
  const uint32_t slot = tenant->model.weight_slot;
  if (runs_.empty() || runs_.back().slot != slot || mini_batch_ != segment.mini_batch) {
    runs_.push_back({asked_rows_, 0, slot});
    run_segments_.push_back(0);
    run_calls_.push_back(segment.call);
  }
  mini_batch_ = segment.mini_batch;
  runs_.back().num_rows += rows;
  ++run_segments_.back();
  asked_rows_ += rows;
}

void BatchLayout::lay_out(std::span<const plan::Call> calls) noexcept {
  if (calls.empty()) bucket_ = buckets_.find(runs_, live_.size(), num_pieces_);
  size_t next = 0;
  for (size_t run = 0; run < runs_.size(); ++run) {
    const uint32_t first_row = num_rows_;
    for (uint32_t i = 0; i < run_segments_[run]; ++i) lay_out(live_[next++]);
    pad_rows_to(append_ranges(bucket_, first_row, num_rows_ - first_row, runs_[run].slot, ranges_));
    if (calls.empty()) continue;
    if (run == 0 || run_calls_[run] != run_calls_[run - 1])
      calls_.push_back({.cost_ns = calls[run_calls_[run]].cost_ns});
    ++calls_.back().num_ranges;
  }
  if (bucket_ != nullptr) fill_bucket();
}

void BatchLayout::lay_out(Live& live) noexcept {
  const BatchRequest& segment = *live.segment;
  const uint32_t first_row = live.first_row = num_rows_;
  const uint32_t num_tokens = live.request->num_tokens;
  segments_.push_back({first_row, num_tokens});
  add_adapter(live);
  pad_rows_to(first_row + std::max(segment.num_rows, num_tokens));
  if (segment.score_matrix != plan::kOwnScores) {
    if (std::exchange(score_matrix_, segment.score_matrix) != segment.score_matrix)
      score_matrices_.push_back({first_row, 0});
    // A bucket's padding between two ranges is part of a matrix that both have rows of.
    score_matrices_.back().num_rows = num_rows_ - score_matrices_.back().first_row;
  }
  if (const std::span<const uint8_t> types = token_types_of(segment); !types.empty()) {
    std::ranges::copy(types, token_types_.begin() + first_row);
    has_token_types_ = true;
  }
  const model::BackboneSpec& spec = live.tenant->model.spec;
  if (!spec.takes_images()) {
    const size_t first_piece = pieces_.size();
    RequestIds(*live.request, segment.prepared).append_to(pieces_, first_row);
    return set_positions(spec, std::span(pieces_).subspan(first_piece));
  }
  std::iota(positions_.begin() + first_row, positions_.begin() + first_row + num_tokens, 0u);
  kernels::ImagePixels& image = images_.emplace_back(image_of(segment));
  image.first_row = first_row + 1;  // after the class token
  const bool is_raw = image.value_bytes == 1;
  image.scale = is_raw ? live.tenant->model.images->scale.data() : nullptr;
  image.shift = is_raw ? live.tenant->model.images->shift.data() : nullptr;
}

void BatchLayout::add_adapter(const Live& live) noexcept {
  const model::AdapterWeights* adapter = live.tenant->adapter.get();
  if (adapter == nullptr) return;
  const uint32_t num_tokens = live.request->num_tokens;
  if (!adapters_.empty() && adapters_.back().modules == adapter->modules() &&
      adapters_.back().first_row + adapters_.back().num_rows == live.first_row) {
    adapters_.back().num_rows += num_tokens;
    return;
  }
  if (adapters_.empty()) std::ranges::fill(changed_kinds_, uint8_t{0});
  adapters_.push_back({.first_row = live.first_row,
                       .num_rows = num_tokens,
                       .max_rank = adapter->max_rank(),
                       .modules = adapter->modules()});
  const std::span<const uint8_t> changed = adapter->changed_kinds();
  for (size_t kind = 0; kind < changed.size(); ++kind) changed_kinds_[kind] |= changed[kind];
}

// Only families whose positions depend on ids read these, where they arrived.
void BatchLayout::set_positions(const model::BackboneSpec& spec,
                                std::span<const kernels::IdPiece> text) noexcept {
  model::TextPositions counted(spec);
  for (const kernels::IdPiece& piece : text) {
    uint32_t* rows = positions_.data() + piece.first_row;
    if (spec.position_base == 0)
      std::iota(rows, rows + piece.num_ids, piece.first_row - text.front().first_row);
    else
      counted.number(piece.data, piece.num_ids, piece.id_bytes, rows);
  }
}

// Padding rows compute values that are never read: position 0, with the token that the row held
// before.
void BatchLayout::pad_rows_to(uint32_t num_rows) noexcept {
  num_rows_ = num_rows;
  positions_.resize(num_rows_, 0);
  token_types_.resize(num_rows_, 0);
}

void BatchLayout::fill_bucket() noexcept {
  pad_rows_to(fill_ranges(*bucket_, num_rows_, ranges_));
  segments_.resize(bucket_->num_segments, {num_rows_, 0});
  if (!score_matrices_.empty()) score_matrices_.resize(bucket_->num_segments, {num_rows_, 0});
  pieces_.resize(bucket_->num_pieces);
  images_.resize(bucket_->num_images);
  has_token_types_ = true;  // zeros if no segment has any
  // Few numbers of adapters, so that few graphs differ.
  if (!adapters_.empty())
    adapters_.resize(std::bit_ceil(adapters_.size()), {.modules = adapters_.back().modules});
}

void BatchLayout::build(const GraphBucket& bucket) noexcept {
  clear();
  bucket_ = &bucket;
  fill_bucket();
  sort_by_tenant();
}

void BatchLayout::build(uint32_t slot, const model::BackboneSpec& spec, uint32_t num_requests,
                        uint32_t num_tokens) {
  clear();
  const size_t payload_bytes =
      spec.takes_images() ? spec.image.values() : num_tokens * sizeof(uint32_t);
  zeros_.assign(payload_bytes, std::byte{0});
  zero_image_ = {.data = zeros_.data(), .bytes = static_cast<uint32_t>(payload_bytes)};
  for (uint32_t i = 0; i < num_requests; ++i) {
    segments_.push_back({.first_row = num_rows_, .num_rows = num_tokens});
    if (spec.takes_images())
      images_.push_back(
          {.pieces = {&zero_image_, 1}, .value_bytes = 1, .first_row = num_rows_ + 1});
    else
      pieces_.push_back({.data = zeros_.data(),
                         .num_ids = num_tokens,
                         .first_row = num_rows_,
                         .id_bytes = sizeof(uint32_t)});
    pad_rows_to(num_rows_ + num_tokens);
    std::iota(positions_.end() - num_tokens, positions_.end(), spec.position_base);
  }
  ranges_.push_back({0, num_rows_, slot});
  sort_by_tenant();
}

void BatchLayout::sort_by_tenant() noexcept {
  by_tenant_.resize(live_.size());
  std::iota(by_tenant_.begin(), by_tenant_.end(), 0u);
  std::ranges::sort(by_tenant_, {},
                    [&](uint32_t i) { return std::pair(live_[i].request->slot, i); });
}

backbone::Pass BatchLayout::pass() const noexcept {
  return {.num_rows = num_rows_,
          .pieces = pieces_,
          .images = images_,
          .positions = positions_,
          .token_types = has_token_types_ ? std::span<const uint8_t>(token_types_)
                                          : std::span<const uint8_t>(),
          .segments = segments_,
          .score_matrices = score_matrices_,
          .ranges = ranges_,
          .has_bucket = bucket_ != nullptr,
          .gemm_schedule = kernels::GemmSchedule(std::span(calls_)),
          .adapters = adapters_.empty() ? backbone::PassAdapters{}
                                        : backbone::PassAdapters{.rows = adapters_,
                                                                 .changed_kinds = changed_kinds_,
                                                                 .first_module = modules_.first()}};
}

}  // namespace itif::runtime
