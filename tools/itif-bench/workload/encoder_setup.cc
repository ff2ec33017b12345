#include "workload/encoder_setup.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <numeric>
#include <tuple>

#include "base/check.h"
#include "base/random.h"
#include "limits/noise.h"
#include "model/packed_matrix.h"
#include "workload/costs.h"
#include "workload/devices.h"
#include "workload/floor.h"

namespace itif::bench {
namespace {

// The default of the appliance's groups; larger costs are extrapolated in proportion.
constexpr uint32_t kMaxProfiledRows = 1024;

// Random ids of a request, the same in every layout of the batch.
void fill_ids(std::span<uint16_t> ids, size_t request, uint32_t vocab) {
  Random random(request + 1);
  for (uint16_t& id : ids) id = static_cast<uint16_t>(random.below(vocab));
}

}  // namespace

model::BackboneSpec bert_base() {
  return backbone::find_preset("bert-base").value()->spec;
}

uint32_t EncoderCase::num_tokens() const {
  uint32_t tokens = 0;
  for (const auto& tenant : lengths) tokens = std::accumulate(tenant.begin(), tenant.end(), tokens);
  return tokens;
}

Result<std::unique_ptr<Encoder>> Encoder::make(device::Device& device,
                                               const model::BackboneSpec& spec,
                                               uint32_t num_tenants, uint32_t max_tokens,
                                               const EncoderOptions& options) {
  std::unique_ptr<Encoder> encoder(new Encoder(device, spec));
  ITIF_ASSIGN(const backbone::Family* family, backbone::find_family(spec.family));
  ITIF_ASSIGN(encoder->weights_,
              model::WeightStore::create(
                  device, backbone::weight_kinds(*family, spec, options.fusion_mode), num_tenants));
  encoder->num_tenants_ = num_tenants;
  for (uint32_t tenant = 0; tenant < num_tenants; ++tenant) {
    ITIF_ASSIGN(const uint32_t slot, encoder->weights_->acquire());
    CHECK(slot == tenant);
    ITIF_TRY(fill_with_noise(device, *encoder->weights_, slot, options.first_tenant + tenant));
  }
  if (family->make == nullptr)
    return fail(Code::kUnsupported, "the backbone generates: an encoder-only backbone is needed");
  ITIF_ASSIGN(
      encoder->backbone_,
      family->make(device, spec, {.max_rows = max_tokens, .fusion_mode = options.fusion_mode}));
  ITIF_ASSIGN(encoder->stream_,
              device.make_stream({.max_tokens = max_tokens, .max_segments = max_tokens}));
  encoder->stream_->attach_thread();
  encoder->gemms_ =
      std::make_unique<runtime::GemmScheduler>(device.info().num_threads, max_tokens, max_tokens);
  encoder->pass_limits_ =
      runtime::pass_limits(device.info(), backbone::gemms(*family, spec, options.fusion_mode));
  if (num_tenants == 1) return encoder;
  ITIF_ASSIGN(encoder->costs_,
              measure_costs(device, *encoder->stream_, spec, options.fusion_mode,
                            {.max_rows = std::min(kMaxProfiledRows, std::bit_ceil(max_tokens)),
                             .max_length = spec.max_tokens(),
                             .max_tenants = std::bit_ceil(num_tenants)}));
  encoder->gemms_->set_costs(encoder->costs_);
  return encoder;
}

// Weights with the distribution of BERT's initialiser.
Status fill_with_noise(device::Device& device, const model::WeightStore& weights, uint32_t slot,
                       uint32_t tenant) {
  static const std::vector<float> block = [] {
    Random random(1);
    std::vector<float> noise(1 << 20);
    for (float& v : noise) v = static_cast<float>(random.normal() * 0.03);
    return noise;
  }();
  Random random(tenant + 1);
  std::vector<float> values;
  for (size_t kind = 0; kind < weights.kinds().size(); ++kind) {
    const model::WeightKind& what = weights.kinds()[kind];
    Shape shape = what.source_shape;
    shape.dims[0] *= what.sources.size();
    values.resize(shape.elements());
    fill_from<float>(block, random.below(block.size()), values);
    if (what.init == model::Init::kOne)
      for (float& v : values) v += 1.0f;
    const TensorView view{reinterpret_cast<const std::byte*>(values.data()), DType::kF32, shape};
    std::byte* target = weights.slab(kind).at(slot);
    switch (what.storage) {
      case model::Storage::kTable:
        ITIF_TRY(device.upload(view, device.info().compute.activations, target));
        break;
      case model::Storage::kVector:
        ITIF_TRY(device.upload(view, DType::kF32, target));
        if (kind > 0 && model::has_bias(weights.kinds()[kind - 1]))
          ITIF_TRY(device.pack_bias(weights.kinds()[kind - 1].gemm, {&view, 1},
                                    weights.slab(kind - 1).at(slot)));
        break;
      case model::Storage::kMatrix: {
        std::vector<TensorView> matrices;
        for (uint32_t i = 0; i < what.num_gemms; ++i)
          matrices.push_back({view.data + size_t{i} * what.gemm.n * what.gemm.k * sizeof(float),
                              view.dtype,
                              {what.gemm.n, what.gemm.k}});
        ITIF_TRY(model::pack_matrix(device, what, matrices, target));
        break;
      }
    }
  }
  return {};
}

Encoder::Batch Encoder::make_batch(const EncoderCase& c, uint32_t vocab) {
  Batch batch;
  batch.offsets.push_back(0);
  batch.ids.resize(c.num_tokens());
  for (uint32_t tenant = 0; tenant < c.lengths.size(); ++tenant) {
    const uint32_t first = batch.offsets.back();
    for (const uint32_t length : c.lengths[tenant]) {
      const uint32_t row = batch.offsets.back();
      fill_ids(std::span(batch.ids).subspan(row, length), batch.segments.size(), vocab);
      batch.pieces.push_back({.data = reinterpret_cast<const std::byte*>(batch.ids.data() + row),
                              .num_ids = length,
                              .first_row = row,
                              .id_bytes = 2});
      for (uint32_t i = 0; i < length; ++i) batch.positions.push_back(i);
      batch.offsets.push_back(row + length);
      batch.segments.push_back({row, length});
    }
    batch.ranges.push_back(
        {.first_row = first, .num_rows = batch.offsets.back() - first, .slot = tenant});
  }
  return batch;
}

Encoder::Batch Encoder::make_padded_batch(const EncoderCase& c, uint32_t vocab) {
  const Batch packed = make_batch(c, vocab);
  Batch batch;
  batch.ids = packed.ids;
  batch.offsets.push_back(0);
  size_t segment = 0;
  for (uint32_t tenant = 0; tenant < c.lengths.size(); ++tenant) {
    const uint32_t first = batch.offsets.back();
    const uint32_t longest = std::ranges::max(c.lengths[tenant]);
    for (const uint32_t length : c.lengths[tenant]) {
      const uint32_t row = batch.offsets.back();
      kernels::IdPiece piece = packed.pieces[segment++];
      piece.data = reinterpret_cast<const std::byte*>(batch.ids.data() + piece.first_row);
      piece.first_row = row;
      batch.pieces.push_back(piece);
      for (uint32_t i = 0; i < longest; ++i) batch.positions.push_back(i < length ? i : 0);
      batch.offsets.push_back(row + longest);
      batch.segments.push_back({row, length});
    }
    batch.ranges.push_back(
        {.first_row = first, .num_rows = batch.offsets.back() - first, .slot = tenant});
  }
  return batch;
}

Encoder::Batch Encoder::make_images(const EncoderCase& c, const model::BackboneSpec& spec) {
  constexpr uint32_t kPieceBytes = 1368;
  static constexpr float kScale[16] = {1 / 127.5f, 1 / 127.5f, 1 / 127.5f};
  static constexpr float kShift[16] = {-1, -1, -1};
  CHECK(spec.image.channels == 3);
  Batch batch = make_batch(c, 1);
  batch.pieces.clear();
  Random random(12);
  auto pictures = std::make_shared<Batch::Pictures>();
  const auto bytes = static_cast<uint32_t>(spec.image.values());
  for (size_t i = 0; i < batch.segments.size(); ++i) {
    std::vector<std::byte>& pixels = pictures->pixels.emplace_back(bytes);
    for (std::byte& pixel : pixels) pixel = static_cast<std::byte>(random.below(256));
    std::vector<BytePiece>& pieces = pictures->pieces.emplace_back();
    for (uint32_t at = 0; at < bytes; at += kPieceBytes)
      pieces.push_back({&pixels[at], std::min(kPieceBytes, bytes - at)});
  }
  for (size_t i = 0; i < batch.segments.size(); ++i)
    batch.images.push_back({.pieces = pictures->pieces[i],
                            .first_row = batch.segments[i].first_row + 1,
                            .scale = kScale,
                            .shift = kShift});
  batch.pictures = std::move(pictures);
  return batch;
}

Encoder::Batch Encoder::alone(const Batch& batch, size_t segment) {
  const uint32_t first = batch.offsets[segment], length = batch.offsets[segment + 1] - first;
  Batch one;
  if (batch.images.empty()) {
    one.pieces = {batch.pieces[segment]};
    one.pieces[0].first_row = 0;
  } else {
    one.pictures = batch.pictures;
    one.images = {batch.images[segment]};
    one.images[0].first_row = 1;
  }
  for (uint32_t i = 0; i < length; ++i) one.positions.push_back(i);
  one.offsets = {0, length};
  one.segments = {{0, length}};
  for (const kernels::RowRange& range : batch.ranges)
    if (first >= range.first_row && first < range.first_row + range.num_rows)
      one.ranges = {{.first_row = 0, .num_rows = length, .slot = range.slot}};
  return one;
}

Encoder::Batch Encoder::of_tenant(const Batch& batch, uint32_t tenant, uint32_t slot) {
  Batch one;
  one.offsets.push_back(0);
  const auto range = std::ranges::find(batch.ranges, tenant, &kernels::RowRange::slot);
  CHECK(range != batch.ranges.end());
  const uint32_t first = range->first_row, end = first + range->num_rows;
  one.pictures = batch.pictures;
  for (size_t s = 0; s < batch.segments.size(); ++s) {
    if (batch.segments[s].first_row < first || batch.segments[s].first_row >= end) continue;
    if (batch.images.empty()) {
      one.pieces.push_back(batch.pieces[s]);
      one.pieces.back().first_row -= first;
    } else {
      one.images.push_back(batch.images[s]);
      one.images.back().first_row -= first;
    }
    one.segments.push_back({batch.segments[s].first_row - first, batch.segments[s].num_rows});
    one.offsets.push_back(batch.offsets[s + 1] - first);
  }
  one.positions.assign(batch.positions.begin() + first, batch.positions.begin() + end);
  one.ranges = {{.first_row = 0, .num_rows = range->num_rows, .slot = slot}};
  return one;
}

Encoder::Batch Encoder::of_pass(const plan::Plan& plan, const plan::Pass& pass, uint32_t vocab,
                                const Batch* images) {
  Batch batch;
  if (images != nullptr) batch.pictures = images->pictures;
  batch.offsets.push_back(0);
  batch.positions.resize(pass.num_rows, 0);
  batch.ids.resize(pass.num_rows);
  for (uint32_t s = pass.first_segment; s < pass.first_segment + pass.num_segments; ++s) {
    const plan::Segment& segment = plan.segments[s];
    for (uint32_t i = 0; i < segment.num_tokens; ++i) batch.positions[segment.first_row + i] = i;
    if (images != nullptr) {
      batch.images.push_back(images->images[segment.item]);
      batch.images.back().first_row = segment.first_row + 1;
    } else {
      const auto ids = std::span(batch.ids).subspan(segment.first_row, segment.num_tokens);
      fill_ids(ids, segment.item, vocab);
      batch.pieces.push_back({.data = reinterpret_cast<const std::byte*>(ids.data()),
                              .num_ids = segment.num_tokens,
                              .first_row = segment.first_row,
                              .id_bytes = 2});
    }
    batch.segments.push_back({segment.first_row, segment.num_tokens});
    batch.offsets.push_back(segment.first_row + segment.num_rows);
    if (segment.score_matrix == plan::kOwnScores) continue;
    if (s == pass.first_segment || plan.segments[s - 1].score_matrix != segment.score_matrix)
      batch.score_matrices.push_back({segment.first_row, 0});
    batch.score_matrices.back().num_rows += segment.num_rows;
  }
  for (uint32_t m = pass.first_mini_batch; m < pass.first_mini_batch + pass.num_mini_batches; ++m) {
    const plan::MiniBatch& mini_batch = plan.mini_batches[m];
    batch.ranges.push_back({.first_row = mini_batch.first_row,
                            .num_rows = mini_batch.num_rows,
                            .slot = mini_batch.slot});
  }
  if (plan.has_fixed_calls)
    for (const plan::Call& call : std::span(plan.calls).subspan(pass.first_call, pass.num_calls))
      batch.calls.push_back({.num_ranges = call.num_mini_batches, .cost_ns = call.cost_ns});
  return batch;
}

double cosine(const float* a, const float* b, size_t count) {
  double ab = 0, aa = 0, bb = 0;
  for (size_t i = 0; i < count; ++i) {
    ab += double{a[i]} * b[i];
    aa += double{a[i]} * a[i];
    bb += double{b[i]} * b[i];
  }
  return ab / std::sqrt(aa * bb);
}

backbone::Pass Encoder::Batch::pass(runtime::GemmScheduler& gemms) const {
  return {.num_rows = offsets.back(),
          .pieces = pieces,
          .images = images,
          .positions = positions,
          .token_types = {},
          .segments = segments,
          .score_matrices = score_matrices,
          .ranges = ranges,
          .gemm_schedule =
              calls.empty() ? gemms.choose(ranges) : kernels::GemmSchedule(std::span(calls))};
}

uint64_t Encoder::bytes() const {
  return num_tenants_ * weights_->slot_bytes() + backbone_->workspace_bytes();
}

void Encoder::launch_sample(device::Stream& stream, uint32_t num_requests, uint32_t num_tokens) {
  const EncoderCase c{.name = {}, .lengths = {std::vector<uint32_t>(num_requests, num_tokens)}};
  sample_ = make_batch(c, spec_.vocab);
  backbone_->launch(stream, weights_->view(), sample_.pass(*gemms_));
}

Status Encoder::forward(const Batch& batch) {
  backbone_->launch(*stream_, weights_->view(), batch.pass(*gemms_));
  return run_to_end(*stream_);
}

Result<std::vector<float>> Encoder::hidden_states(const Batch& batch) {
  const backbone::Hidden hidden =
      backbone_->launch(*stream_, weights_->view(), batch.pass(*gemms_));
  const DType type = device_.info().compute.activations;
  const uint64_t count = uint64_t{batch.offsets.back()} * spec_.hidden;
  std::vector<std::byte> raw(count * dtype_bytes(type));
  stream_->copy_to_host(hidden.rows, raw.size(), raw.data());
  ITIF_TRY(stream_->synchronize());
  std::vector<float> values(count);
  TensorView{raw.data(), type, {count}}.to_f32(values.data());
  return values;
}

Result<std::vector<float>> Encoder::last_states(const Batch& batch) {
  ITIF_ASSIGN(const std::vector<float> states, hidden_states(batch));
  std::vector<float> last;
  size_t next = 0;
  for (const kernels::RowRange& range : batch.ranges) {
    while (next < batch.segments.size() &&
           batch.segments[next].first_row < range.first_row + range.num_rows)
      ++next;
    const kernels::SegmentRows& segment = batch.segments[next - 1];
    const auto end =
        states.begin() + ptrdiff_t{spec_.hidden} * (segment.first_row + segment.num_rows);
    last.insert(last.end(), end - spec_.hidden, end);
  }
  return last;
}

device::MeteredStream& Encoder::meter(const Clock& clock) {
  using Times = device::MeteredStream::Times;
  const Times times = device_.info().kind == "cuda" ? Times::kOnDevice : Times::kCalls;
  auto metered = std::make_unique<device::MeteredStream>(std::move(stream_), clock, times);
  device::MeteredStream& stream = *metered;
  stream_ = std::move(metered);
  return stream;
}

Result<std::unique_ptr<Bare>> encoder_floor(const Hardware& on, const model::BackboneSpec& spec,
                                            const EncoderCase& c) {
  const auto uses = backbone::find_family(spec.family).value()->gemms(spec);
  std::map<std::tuple<size_t, uint32_t, size_t>, uint32_t> made;  // by use, weight and tenant
  std::vector<GemmSize> gemms;
  GemmOrder order;
  for (uint32_t layer = 0; layer < spec.layers; ++layer)
    for (size_t u = 0; u < uses.size(); ++u) {
      const backbone::GemmUse& use = uses[u];
      if (layer >= use.times) continue;
      const uint32_t weight = layer % (use.num_weights == 0 ? use.times : use.num_weights);
      order.emplace_back();
      for (size_t tenant = 0; tenant < c.lengths.size(); ++tenant) {
        const auto [at, is_new] =
            made.try_emplace({u, weight, tenant}, static_cast<uint32_t>(gemms.size()));
        if (is_new) {
          const auto& lengths = c.lengths[tenant];
          gemms.push_back({std::accumulate(lengths.begin(), lengths.end(), uint32_t{0}),
                           use.shape.n, use.shape.k});
        }
        order.back().push_back(at->second);
      }
    }
  if (c.lengths.size() == 1 || made.size() == order.size() * c.lengths.size())
    return bare_gemms(on, gemms, order);
  // Layers share weights. Tenant after tenant may be faster, because its weights stay in a cache.
  return fastest_floor(
      {[&] { return bare_gemms(on, gemms, order); },
       [&] { return bare_gemms(on, gemms, one_after_another(orders_by_tenant(order))); }});
}

}  // namespace itif::bench
