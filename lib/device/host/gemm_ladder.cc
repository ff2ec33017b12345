#include "device/host/gemm_ladder.h"

#include <algorithm>

namespace itif::device {
namespace {

// A GEMM of fewer products runs on the calling thread alone. It is 1 to 10 µs of work: a second
// thread could take only a part, and on busy cores the caller would have to wait for it. Decoder
// steps consist of such GEMMs.
constexpr uint64_t kMinSharedProducts = 1u << 19;

// The most bytes of a part of a weight's columns: some 0.15 ms at 10 GB/s, and half of a level 2
// cache. A part has whole blocks of columns.
constexpr size_t kMaxPartBytes = 1'300'000;
constexpr uint32_t kColumnBlock = 64;

// Returns the least number of equal parts of at most kMaxPartBytes; 1: there are none.
uint32_t num_column_parts(uint32_t n, uint64_t column_bytes) {
  if (n % kColumnBlock != 0) return 1;
  const uint32_t blocks = n / kColumnBlock;
  for (uint32_t count = 1; count <= blocks; ++count)
    if (blocks % count == 0 && column_bytes * (n / count) <= kMaxPartBytes) return count;
  return blocks;
}

dnnl::memory::dim element_offset(const dnnl::memory::desc& part) {
#if DNNL_VERSION_MAJOR >= 3
  return part.get_submemory_offset();
#else
  return part.data.offset0;
#endif
}

}  // namespace

dnnl::matmul::primitive_desc GemmState::describe(const Ladder& ladder, uint32_t rows,
                                                 const dnnl::memory::desc& weights) {
  using dnnl::memory;
  const memory::data_type type = dnnl_type(types.activations);
  const memory::dim m = rows, n = ladder.n, k = ladder.k;
  const memory::desc a({m, k}, type, memory::format_tag::ab);
  const memory::desc out({m, n}, ladder.f32_out ? memory::data_type::f32 : type,
                         memory::format_tag::ab);
  const memory::desc bias({1, n}, memory::data_type::f32, memory::format_tag::ab);
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
#if DNNL_VERSION_MAJOR >= 3
  return ladder.has_bias ? dnnl::matmul::primitive_desc(engine, a, weights, bias, out, attr)
                         : dnnl::matmul::primitive_desc(engine, a, weights, out, attr);
#else
  const auto op = ladder.has_bias ? dnnl::matmul::desc(a, weights, bias, out)
                                  : dnnl::matmul::desc(a, weights, out);
  return dnnl::matmul::primitive_desc(op, attr, engine);
#endif
}

std::shared_ptr<Ladder> GemmState::find_or_add(const GemmShape& shape) {
  std::erase_if(ladders, [](const std::weak_ptr<Ladder>& ladder) { return ladder.expired(); });
  for (const std::weak_ptr<Ladder>& known : ladders)
    if (std::shared_ptr<Ladder> ladder = known.lock(); ladder && ladder->is(shape)) return ladder;
  auto ladder = std::make_shared<Ladder>(num_threads);
  ladder->n = shape.n;
  ladder->k = shape.k;
  ladder->has_bias = shape.has_bias;
  ladder->f32_out = shape.f32_out;
  // The layout that oneDNN prefers for 128 rows. Measurements gave the same layout for other
  // numbers of rows; all rungs use it in any case.
  const dnnl::memory::desc any({shape.k, shape.n}, dnnl_type(types.weights),
                               dnnl::memory::format_tag::any);
  const OpenMpThreads threads(num_threads);
  ladder->weights = describe(*ladder, 128, any).weights_desc();
  add_column_parts(*ladder);
  ladders.push_back(ladder);
  return ladder;
}

// Adds none if oneDNN would choose another implementation for a part: it could be many times
// slower, and round differently.
void GemmState::add_column_parts(Ladder& ladder) {
  const size_t weight_bytes = dtype_bytes(types.weights);
  const uint32_t count = num_column_parts(ladder.n, uint64_t{ladder.k} * weight_bytes);
  if (count == 1) return;
  auto part = std::make_unique<Ladder>(num_threads);
  part->n = ladder.n / count;
  part->k = ladder.k;
  part->has_bias = ladder.has_bias;
  part->f32_out = ladder.f32_out;
  const dnnl::memory::dims size = {part->k, part->n};
  try {
    part->weights = ladder.weights.submemory_desc(size, {0, 0});
    const auto second = ladder.weights.submemory_desc(size, {0, part->n});
    const std::string whole_name = describe(ladder, kMaxPartRows, ladder.weights).impl_info_str();
    if (describe(*part, kMaxPartRows, part->weights).impl_info_str() != whole_name) return;
    ladder.parts = {.count = count,
                    .weight_bytes = static_cast<size_t>(element_offset(second)) * weight_bytes,
                    .ladder = std::move(part)};
  } catch (const dnnl::error&) {  // the layout has no such parts
  }
}

void GemmState::add_thread_count(uint32_t count) {
  if (std::ranges::find(thread_counts, count) != thread_counts.end()) return;
  thread_counts.push_back(count);
  for (const std::weak_ptr<Ladder>& known : ladders)
    if (const std::shared_ptr<Ladder> ladder = known.lock()) add_rungs(*ladder);
}

void GemmState::add_rungs(Ladder& ladder) {
  for (const uint32_t count : thread_counts) add_rungs(ladder, ladder.last_rung, count);
  if (num_threads > 1) add_rungs(ladder, std::min(ladder.last_rung, rung_of(kConcurrentRows)), 1);
}

void GemmState::add_rungs(Ladder& ladder, uint32_t last, uint32_t max_threads) {
  if (ladder.parts.ladder != nullptr)
    add_rungs(*ladder.parts.ladder, std::min(last, rung_of(kMaxPartRows)), max_threads);
  std::unique_ptr<Rungs>& rungs = ladder.by_threads[max_threads];
  if (rungs == nullptr) rungs = std::make_unique<Rungs>();
  for (uint32_t rung = 0; rung <= last; ++rung)
    if (!rungs->owned[rung]) add_rung(ladder, *rungs, rung, max_threads);
}

void GemmState::add_rung(const Ladder& ladder, Rungs& rungs, uint32_t index, uint32_t max_threads) {
  auto rung = std::make_unique<Rung>();
  const uint64_t products = uint64_t{rung_rows(index)} * ladder.n * ladder.k;
  rung->num_threads = products < kMinSharedProducts ? 1 : max_threads;
  const OpenMpThreads threads(rung->num_threads);
  const auto description = describe(ladder, rung_rows(index), ladder.weights);
  rung->primitive = dnnl::matmul(description);
  rung->scratch_bytes = description.scratchpad_desc().get_size();
  raise(scratch_bytes, rung->scratch_bytes);
  rungs.owned[index] = std::move(rung);
  rungs.shared[index].store(rungs.owned[index].get(), std::memory_order_release);
}

}  // namespace itif::device
