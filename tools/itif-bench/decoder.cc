// itif-bench decoder: one step of Marian's decoder over given memories (6 layers, hidden 512, 8 heads, beam
// 4), tenants as one instance and one after the other (Table 5.2's row of Decoding), with the rows of what
// has finished gone; against the step's GEMMs alone.
#include <fmt/format.h>

#include <numeric>

#include "backbone/decoder.h"
#include "base/check.h"
#include "benches.h"
#include "encoder_setup.h"

namespace itif::bench {
namespace {

using backbone::Decoder;

constexpr uint32_t kBeams = 4;
constexpr uint32_t kSourceTokens = 128;  // as the thesis's inputs
constexpr uint32_t kPosition = 31;       // of the token that is timed
constexpr uint32_t kCandidates = 2 * kBeams;
constexpr uint32_t kMaxSequences = 64;

// SEQ and ITIF of 2 to 5 tenants, ms.
constexpr double kPaper[4][2] = {{46.10, 24.38}, {70.13, 40.48}, {94.42, 54.21}, {117.77, 70.30}};

// Sequences of several tenants at the same position, each beam with blocks of its own.
struct Workload {
  std::vector<int32_t> tokens;
  std::vector<uint32_t> positions, places, blocks;
  std::vector<kernels::KvTable> history, memory;
  std::vector<kernels::RowRange> ranges;
  std::vector<uint32_t> source_places;  // of the sources end to end

  // Adds a sequence whose first block is `block`. REQUIRES: tenants ascending.
  void add(uint32_t tenant, uint32_t block) {
    const auto first_memory = static_cast<uint32_t>(blocks.size());
    for (uint32_t token = 0; token < kSourceTokens; ++token)
      source_places.push_back(block * Decoder::kBlockTokens + token);
    const auto append = [&](uint32_t tokens_of) {
      for (uint32_t t = 0; t < tokens_of; t += Decoder::kBlockTokens) blocks.push_back(block++);
    };
    append(kSourceTokens);
    if (ranges.empty() || ranges.back().slot != tenant)
      ranges.push_back({static_cast<uint32_t>(tokens.size()), 0, tenant});
    for (uint32_t beam = 0; beam < kBeams; ++beam) {
      history.push_back({static_cast<uint32_t>(blocks.size()), kPosition + 1});
      memory.push_back({first_memory, kSourceTokens});
      append(kPosition + 1);
      places.push_back(blocks.back() * Decoder::kBlockTokens + kPosition % Decoder::kBlockTokens);
      tokens.push_back(static_cast<int32_t>(7 + 13 * tokens.size()));
      positions.push_back(kPosition);
      ++ranges.back().num_rows;
    }
  }
  backbone::DecoderStep step() const {
    return {.tokens = tokens,
            .positions = positions,
            .places = places,
            .history = history,
            .memory = memory,
            .blocks = blocks,
            .ranges = ranges,
            .banned_of = {},
            .banned = {},
            .num_candidates = kCandidates};
  }
};

constexpr uint32_t kBlocksOfOne =
    kSourceTokens / Decoder::kBlockTokens +
    kBeams * ((kPosition + Decoder::kBlockTokens) / Decoder::kBlockTokens);

// `live`: which of the sequences 0, 1, … still run; tenants take turns of equal size.
Workload make_workload(const std::vector<uint32_t>& live, uint32_t tenants) {
  Workload workload;
  for (size_t i = 0; i < live.size(); ++i)
    workload.add(static_cast<uint32_t>(i * tenants / live.size()), live[i] * kBlocksOfOne);
  return workload;
}

struct Setup {
  std::unique_ptr<device::Device> device;
  model::BackboneSpec spec;
  std::unique_ptr<model::WeightStore> weights;
  std::unique_ptr<Decoder> decoder;
  std::unique_ptr<device::Stream> stream;

  std::vector<int32_t> found(const Workload& workload) {
    const auto result = decoder->launch_step(*stream, weights->view(), workload.step());
    std::vector<int32_t> tokens(workload.tokens.size() * kCandidates);
    stream->copy_to_host(result.tokens, tokens.size() * sizeof(int32_t), tokens.data());
    CHECK(stream->synchronize());
    return tokens;
  }
};

Result<std::unique_ptr<Setup>> make_setup(const BenchOptions& options, const std::string& dtype,
                                          uint32_t tenants) {
  auto setup = std::make_unique<Setup>();
  ITIF_ASSIGN(setup->device, device::open_device(
                                 {.kind = "host", .dtype = dtype, .num_threads = options.threads}));
  setup->spec = backbone::find_preset("marian").value()->spec;
  if (options.quick) setup->spec.vocab = 8000;
  const backbone::Family* family = backbone::find_family("marian").value();
  ITIF_ASSIGN(setup->weights, model::WeightStore::create(
                                  *setup->device, family->weight_kinds(setup->spec), tenants));
  for (uint32_t tenant = 0; tenant < tenants; ++tenant) {
    ITIF_ASSIGN(const uint32_t slot, setup->weights->acquire());
    ITIF_TRY(fill_with_noise(*setup->device, *setup->weights, slot, tenant));
  }
  ITIF_ASSIGN(setup->decoder, family->make_decoder(*setup->device, setup->spec,
                                                   {.max_rows = kSourceTokens,
                                                    .max_step_rows = kMaxSequences * kBeams,
                                                    .max_cache_bytes = uint64_t{4} << 30}));
  if (setup->decoder->num_blocks() < kMaxSequences * kBlocksOfOne)
    return fail(Code::kResourceExhausted, "no memory for the K/V cache");
  ITIF_ASSIGN(setup->stream, setup->device->make_stream({}));
  setup->stream->attach_thread();
  return setup;
}

// Real keys and values for every sequence's source; histories are what memory holds: zeros.
void encode_sources(Setup& setup, const Workload& workload) {
  const size_t num_sources = workload.source_places.size() / kSourceTokens;
  std::vector<uint16_t> ids(kSourceTokens);
  std::vector<uint32_t> positions(kSourceTokens);
  std::iota(positions.begin(), positions.end(), 0u);
  const kernels::SegmentRows segment{0, kSourceTokens};
  for (size_t source = 0; source < num_sources; ++source) {
    for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<uint16_t>(3 + source + 5 * i);
    const kernels::IdPiece piece{reinterpret_cast<const std::byte*>(ids.data()), kSourceTokens, 0,
                                 2};
    const kernels::RowRange range{0, kSourceTokens, 0};
    setup.decoder->launch_encode(
        *setup.stream, setup.weights->view(),
        {.num_rows = kSourceTokens,
         .pieces = {&piece, 1},
         .positions = positions,
         .token_types = {},
         .segments = {&segment, 1},
         .ranges = {&range, 1}},
        std::span(workload.source_places).subspan(source * kSourceTokens, kSourceTokens));
    CHECK(setup.stream->synchronize());
  }
}

// The GEMMs of a step, with weights of their own.
class StepFloor {
 public:
  StepFloor(DType type, const model::BackboneSpec& spec, const Workload& workload,
            uint32_t threads) {
    const auto uses = backbone::find_family("marian").value()->gemms(spec);
    for (const kernels::RowRange& range : workload.ranges)
      for (size_t use = 4; use < uses.size(); ++use) {       // the first four are the encoder's
        if (uses[use].shape.n == 2 * spec.hidden) continue;  // of sources
        for (uint32_t i = 0; i < uses[use].times; ++i)
          gemms_.push_back(
              make_bare_gemm(type, range.num_rows, uses[use].shape.n, uses[use].shape.k, threads));
      }
  }
  void run() {
    for (const auto& gemm : gemms_) gemm->run();
  }

 private:
  std::vector<std::unique_ptr<BareGemm>> gemms_;
};

// Every row finds what it finds when its tenant runs alone.
Status check_alone(Setup& setup, const Workload& all, const std::vector<Workload>& each) {
  const std::vector<int32_t> together = setup.found(all);
  std::vector<int32_t> apart;
  for (const Workload& one : each) {
    const std::vector<int32_t> found = setup.found(one);
    apart.insert(apart.end(), found.begin(), found.end());
  }
  // Scores that lie close may change places where sums are rounded elsewhere: the best one must not.
  for (size_t row = 0; row < together.size(); row += kCandidates)
    if (together[row] != apart[row] && setup.device->info().compute == DType::kF32)
      return fail(Code::kInternal, fmt::format("row {}: {} together, {} alone", row / kCandidates,
                                               together[row], apart[row]));
  return {};
}

Status run_tenants(const BenchOptions& options, Setup& setup, const std::string& dtype,
                   uint32_t tenants, Report& report) {
  const std::string name = fmt::format("{} tenants x 4 beams, {}", tenants, dtype);
  if (!options.wants(name)) return {};
  std::vector<uint32_t> live(tenants);
  std::iota(live.begin(), live.end(), 0u);
  const Workload all = make_workload(live, tenants);
  encode_sources(setup, all);
  std::vector<Workload> each(tenants);
  for (uint32_t tenant = 0; tenant < tenants; ++tenant)
    each[tenant].add(tenant, tenant * kBlocksOfOne);
  for (uint32_t tenant = 0; tenant < tenants; ++tenant)
    for (uint32_t beam = 0; beam < kBeams; ++beam)
      each[tenant].tokens[beam] = all.tokens[tenant * kBeams + beam];
  ITIF_TRY(check_alone(setup, all, each));
  StepFloor floor(setup.device->info().compute, setup.spec, all, setup.device->info().num_threads);
  const auto samples = measure({[&] {
                                  for (const Workload& one : each) setup.found(one);
                                },
                                [&] { setup.found(all); }, [&] { floor.run(); }},
                               options.effort());
  const double limit = samples[2].median() * 1e-6;
  for (const size_t mode : {0, 1})
    report.add({.name = name,
                .mode = mode == 0 ? "seq" : "itif",
                .value = samples[mode].median() * 1e-6,
                .unit = "ms",
                .spread = samples[mode].spread(),
                .limit = limit,
                .ratio = samples[mode].median() * 1e-6 / limit});
  const bool in_paper = tenants >= 2 && tenants <= 5;
  report.add({.name = name,
              .mode = "seq / itif",
              .value = samples[0].median() / samples[1].median(),
              .unit = "times",
              .paper = in_paper ? std::optional(kPaper[tenants - 2][0] / kPaper[tenants - 2][1])
                                : std::nullopt});
  return {};
}

// 8 sequences run; beside them 0, 8 or 56 have finished, whose blocks lie between theirs.
Status run_finished(const BenchOptions& options, Setup& setup, const std::string& dtype,
                    Report& report) {
  constexpr uint32_t kRunning = 8;
  std::vector<Workload> workloads;
  std::vector<std::string> names;
  for (const uint32_t of : {8u, 16u, 64u}) {
    std::vector<uint32_t> live;
    for (uint32_t i = 0; i < kRunning; ++i) live.push_back(i * of / kRunning);
    workloads.push_back(make_workload(live, 1));
    names.push_back(fmt::format("8 run, {} have finished, {}", of - kRunning, dtype));
    encode_sources(setup, workloads.back());
  }
  std::vector<std::function<void()>> runs;
  for (const Workload& workload : workloads) runs.push_back([&] { setup.found(workload); });
  const auto samples = measure(runs, options.effort());
  for (size_t i = 0; i < names.size(); ++i)
    if (options.wants(names[i]))
      report.add({.name = names[i],
                  .mode = "itif",
                  .value = samples[i].median() * 1e-6,
                  .unit = "ms",
                  .spread = samples[i].spread(),
                  .limit = samples[0].median() * 1e-6,
                  .ratio = samples[i].median() / samples[0].median()});
  return {};
}

}  // namespace

Status bench_decoder(const BenchOptions& options, Report& report) {
  constexpr uint32_t kTenants[] = {1, 2, 3, 4, 5};
  for (const std::string& dtype : options.dtypes) {
    auto setup = make_setup(options, dtype, std::end(kTenants)[-1]);
    if (!setup && (setup.error().code == Code::kUnsupported ||
                   setup.error().code == Code::kResourceExhausted)) {
      report.note(fmt::format("skipped {}: {}", dtype, setup.error().message));
      continue;
    }
    if (!setup) return std::unexpected(setup.error());
    report.set_device((*setup)->device->info().description);
    for (const uint32_t tenants : kTenants)
      ITIF_TRY(run_tenants(options, **setup, dtype, tenants, report));
    ITIF_TRY(run_finished(options, **setup, dtype, report));
  }
  return {};
}

}  // namespace itif::bench
