#include "workload/decoder_setup.h"

#include <numeric>

#include "workload/costs.h"
#include "workload/devices.h"
#include "workload/encoder_setup.h"
#include "workload/floor.h"

namespace itif::bench {
namespace {

using backbone::Decoder;

constexpr uint32_t kSourceBlocks = kSourceTokens / Decoder::kBlockTokens;

uint32_t blocks_of(uint32_t tokens) {
  return (tokens + Decoder::kBlockTokens - 1) / Decoder::kBlockTokens;
}
uint32_t blocks_of_sequence(uint32_t max_tokens) {
  return kSourceBlocks + kBeams * blocks_of(max_tokens);
}

}  // namespace

StepRows::StepRows(uint32_t position, uint32_t max_tokens)
    : position_(position), blocks_of_beam_(blocks_of(max_tokens)) {}

void StepRows::add(const Sequence& sequence) {
  const uint32_t first_block = sequence.index * (kSourceBlocks + kBeams * blocks_of_beam_);
  const auto append = [&](uint32_t block, uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) blocks_.push_back(block + i);
  };
  sequences_.push_back(sequence);
  for (uint32_t token = 0; token < kSourceTokens; ++token)
    source_kv_rows_.push_back(first_block * Decoder::kBlockTokens + token);
  const auto first_memory = static_cast<uint32_t>(blocks_.size());
  append(first_block, kSourceBlocks);
  if (ranges_.empty() || ranges_.back().slot != sequence.slot)
    ranges_.push_back({static_cast<uint32_t>(tokens_.size()), 0, sequence.slot});
  for (uint32_t beam = 0; beam < kBeams; ++beam) {
    const uint32_t block = first_block + kSourceBlocks + beam * blocks_of_beam_;
    history_.push_back({static_cast<uint32_t>(blocks_.size()), position_ + 1});
    memory_.push_back({first_memory, kSourceTokens});
    append(block, blocks_of(position_ + 1));
    kv_rows_.push_back(block * Decoder::kBlockTokens + position_);
    tokens_.push_back(
        static_cast<int32_t>(7 + 13 * (kBeams * sequence.seed + beam) + 29 * position_));
    positions_.push_back(position_);
    ++ranges_.back().num_rows;
  }
}

backbone::DecoderStep StepRows::step() const {
  return {.tokens = tokens_,
          .positions = positions_,
          .kv_rows = kv_rows_,
          .history = history_,
          .memory = memory_,
          .blocks = blocks_,
          .ranges = ranges_,
          .banned_of = {},
          .banned = {},
          .num_candidates = kCandidates};
}

Result<std::unique_ptr<DecoderSetup>> DecoderSetup::make(device::Device& device,
                                                         const model::BackboneSpec& spec,
                                                         const Options& options) {
  auto setup = std::make_unique<DecoderSetup>();
  ITIF_ASSIGN(const backbone::Family* family, backbone::find_family(spec.family));
  ITIF_ASSIGN(setup->weights_,
              model::WeightStore::create(device, family->weight_kinds(spec), options.num_tenants));
  for (uint32_t tenant = 0; tenant < options.num_tenants; ++tenant) {
    ITIF_ASSIGN(const uint32_t slot, setup->weights_->acquire());
    ITIF_TRY(fill_with_noise(device, *setup->weights_, slot, options.first_tenant + tenant));
  }
  ITIF_ASSIGN(setup->decoder_,
              family->make_decoder(device, spec,
                                   {.max_rows = kSourceTokens,
                                    .max_beams = options.max_sequences * kBeams,
                                    .max_step_rows = options.max_sequences * kBeams,
                                    .max_cache_bytes = uint64_t{4} << 30}));
  if (setup->decoder_->num_blocks() <
      options.max_sequences * blocks_of_sequence(options.max_tokens))
    return fail(Code::kResourceExhausted, "no memory for the K/V cache");
  ITIF_ASSIGN(setup->stream_, device.make_stream({}));
  setup->stream_->attach_thread();
  const uint32_t step_rows = options.max_sequences * kBeams;
  setup->gemms_ =
      std::make_unique<runtime::GemmScheduler>(device.info().num_threads, step_rows, step_rows);
  if (options.num_tenants > 1) {
    ITIF_ASSIGN(auto costs,
                measure_costs(device, *setup->stream_, spec, backbone::FusionMode::kFused,
                              {.max_rows = kSourceTokens,
                               .max_step_rows = step_rows,
                               .max_tenants = options.num_tenants}));
    setup->gemms_->set_costs(std::move(costs));
  }
  return setup;
}

void DecoderSetup::encode_sources(const StepRows& rows) {
  std::vector<uint16_t> ids(kSourceTokens);
  std::vector<uint32_t> positions(kSourceTokens);
  std::iota(positions.begin(), positions.end(), 0u);
  const kernels::SegmentRows segment{0, kSourceTokens};
  for (size_t i = 0; i < rows.sequences().size(); ++i) {
    const Sequence& sequence = rows.sequences()[i];
    for (size_t t = 0; t < ids.size(); ++t)
      ids[t] = static_cast<uint16_t>(3 + sequence.seed + 5 * t);
    const kernels::IdPiece piece{reinterpret_cast<const std::byte*>(ids.data()), kSourceTokens, 0,
                                 2};
    const kernels::RowRange range{0, kSourceTokens, sequence.slot};
    decoder_->launch_encode(
        *stream_, weights_->view(),
        {.num_rows = kSourceTokens,
         .pieces = {&piece, 1},
         .positions = positions,
         .token_types = {},
         .segments = {&segment, 1},
         .ranges = {&range, 1}},
        std::span(rows.source_kv_rows()).subspan(i * kSourceTokens, kSourceTokens));
    (void)stream_->synchronize();  // an error also fails the first step, which reports it
  }
}

Result<std::vector<int32_t>> DecoderSetup::found(const StepRows& rows,
                                                 std::optional<kernels::GemmMode> mode) {
  backbone::DecoderStep step = rows.step();
  step.gemm_schedule = mode ? kernels::GemmSchedule(*mode) : gemms_->choose(step.ranges);
  const backbone::StepResult result = decoder_->launch_step(*stream_, weights_->view(), step);
  std::vector<int32_t> tokens(rows.num_rows() * kCandidates);
  stream_->copy_to_host(result.tokens, tokens.size() * sizeof(int32_t), tokens.data());
  ITIF_TRY(run_to_end(*stream_));
  return tokens;
}

Result<std::unique_ptr<Bare>> step_floor(const Hardware& on, const model::BackboneSpec& spec,
                                         const std::vector<kernels::RowRange>& ranges,
                                         uint32_t steps) {
  const auto uses = backbone::find_family(spec.family).value()->gemms(spec);
  std::vector<GemmSize> gemms;
  GemmOrder one_step;
  for (const backbone::GemmUse& use : uses)
    for (uint32_t i = 0; use.in_step && i < use.times; ++i) {
      one_step.emplace_back();
      for (const kernels::RowRange& range : ranges) {
        one_step.back().push_back(static_cast<uint32_t>(gemms.size()));
        gemms.push_back({range.num_rows, use.shape.n, use.shape.k});
      }
    }
  GemmOrder order;
  for (uint32_t step = 0; step < steps; ++step)
    order.insert(order.end(), one_step.begin(), one_step.end());
  // From step to step, the GEMMs of one tenant may find their weights in a cache, and chains on
  // threads of their own wait for no other thread.
  const std::vector<GemmOrder> by_tenant = orders_by_tenant(order);
  return fastest_floor({[&] { return bare_gemms(on, gemms, order); },
                        [&] { return bare_gemms(on, gemms, one_after_another(by_tenant)); },
                        [&] { return bare_chains(on, gemms, by_tenant); }});
}

}  // namespace itif::bench
