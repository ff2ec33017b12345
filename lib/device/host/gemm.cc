#include "device/host/gemm.h"

#include <fmt/format.h>
#include <omp.h>

#include <algorithm>
#include <exception>

#include "device/convert.h"
#include "device/host/gemm_ladder.h"
#include "device/weight_views.h"

namespace itif::device {
namespace {

// Sets the calling thread's number of OpenMP threads, which oneDNN uses when a primitive is created
// and when it runs. Control threads pack with one thread, so that they do not start a second pool
// beside the executor's.
class OpenMpThreads {
 public:
  explicit OpenMpThreads(uint32_t count) : previous_(omp_get_max_threads()) {
    omp_set_num_threads(static_cast<int>(count));
  }
  ~OpenMpThreads() { omp_set_num_threads(previous_); }
  OpenMpThreads(const OpenMpThreads&) = delete;
  OpenMpThreads& operator=(const OpenMpThreads&) = delete;

 private:
  int previous_;
};

// A GEMM of fewer products runs on the calling thread alone. It is 1 to 10 µs of work: a second
// thread could take only a part, and on busy cores the caller would have to wait for it. Decoder
// steps consist of such GEMMs.
constexpr uint64_t kMinSharedProducts = 1u << 19;

dnnl::memory::data_type dnnl_type(DType type) {
  return type == DType::kBF16 ? dnnl::memory::data_type::bf16 : dnnl::memory::data_type::f32;
}

std::unexpected<Error> no_gemm(const ComputeTypes& types, const GemmShape& shape,
                               const std::exception& error) {
  return fail(Code::kUnsupported, fmt::format("oneDNN has no {} GEMM of {} × {}: {}",
                                              compute_name(types), shape.n, shape.k, error.what()));
}

}  // namespace

dnnl::matmul::primitive_desc GemmLibrary::State::describe(const Ladder& ladder, uint32_t rows,
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

std::shared_ptr<Ladder> GemmLibrary::State::find_or_add(const GemmShape& shape) {
  std::erase_if(ladders, [](const std::weak_ptr<Ladder>& ladder) { return ladder.expired(); });
  for (const std::weak_ptr<Ladder>& known : ladders)
    if (std::shared_ptr<Ladder> ladder = known.lock(); ladder && ladder->is(shape)) return ladder;
  auto ladder = std::make_shared<Ladder>();
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
  ladders.push_back(ladder);
  return ladder;
}

void GemmLibrary::State::add_rungs(Ladder& ladder, Rungs& rungs, uint32_t last,
                                   uint32_t most_threads) {
  for (uint32_t rung = 0; rung <= last; ++rung)
    if (!rungs.owned[rung]) add_rung(ladder, rungs, rung, most_threads);
}

void GemmLibrary::State::add_rung(const Ladder& ladder, Rungs& rungs, uint32_t index,
                                  uint32_t most_threads) {
  auto rung = std::make_unique<Rung>();
  const uint64_t products = uint64_t{rung_rows(index)} * ladder.n * ladder.k;
  rung->num_threads = products < kMinSharedProducts ? 1 : most_threads;
  const OpenMpThreads threads(rung->num_threads);
  const auto description = describe(ladder, rung_rows(index), ladder.weights);
  rung->primitive = dnnl::matmul(description);
  rung->scratch_bytes = description.scratchpad_desc().get_size();
  raise(scratch_bytes, rung->scratch_bytes);
  rungs.owned[index] = std::move(rung);
  rungs.shared[index].store(rungs.owned[index].get(), std::memory_order_release);
}

GemmLibrary::GemmLibrary(const ComputeTypes& types, uint32_t num_threads)
    : state_(std::make_shared<State>(types, num_threads)) {}
GemmLibrary::~GemmLibrary() = default;

Result<size_t> GemmLibrary::packed_bytes(const GemmShape& shape) {
  const std::lock_guard lock(state_->mutex);
  try {
    return state_->find_or_add(shape)->weights.get_size();
  } catch (const std::exception& error) {
    return no_gemm(state_->types, shape, error);
  }
}

size_t GemmLibrary::num_prepared() const {
  const std::lock_guard lock(state_->mutex);
  return static_cast<size_t>(std::ranges::count_if(
      state_->ladders, [](const std::weak_ptr<Ladder>& ladder) { return !ladder.expired(); }));
}

Status GemmLibrary::pack(const GemmShape& shape, std::span<const TensorView> weight, void* target) {
  using dnnl::memory;
  ITIF_TRY(check_weight(shape, weight));
  const DType type = state_->types.weights;
  std::vector<std::byte> rows(size_t{shape.n} * shape.k * dtype_bytes(type));
  std::byte* to = rows.data();
  for (const TensorView& view : weight) {
    convert_floats(view, type, to);
    to += view.shape.elements() * dtype_bytes(type);
  }
  try {
    const memory::desc packed = [&] {
      const std::lock_guard lock(state_->mutex);
      return state_->find_or_add(shape)->weights;
    }();
    const OpenMpThreads threads(1);
    memory source({{shape.k, shape.n}, dnnl_type(type), memory::format_tag::ba}, state_->engine,
                  rows.data());
    memory target_memory(packed, state_->engine, target);
    dnnl::stream stream(state_->engine);
    dnnl::reorder(source, target_memory).execute(stream, source, target_memory);
    stream.wait();
  } catch (const std::exception& error) {
    return fail(Code::kInternal, fmt::format("oneDNN cannot pack weights of {} × {}: {}", shape.n,
                                             shape.k, error.what()));
  }
  return {};
}

Result<GemmHandle> GemmLibrary::prepare(const GemmShape& shape, uint32_t max_rows) {
  const std::lock_guard lock(state_->mutex);
  try {
    const std::shared_ptr<Ladder> ladder = state_->find_or_add(shape);
    state_->add_rungs(*ladder, ladder->all_threads,
                      rung_of(std::min(max_rows, call_rows(state_->types))), state_->num_threads);
    if (state_->num_threads > 1) {
      state_->add_rungs(*ladder, ladder->one_thread, rung_of(std::min(max_rows, kConcurrentRows)),
                        1);
      raise(state_->staging_bytes,
            size_t{kConcurrentRows} * shape.n *
                (shape.f32_out ? sizeof(float) : dtype_bytes(state_->types.activations)));
    }
    return GemmHandle(ladder);
  } catch (const std::exception& error) {
    return no_gemm(state_->types, shape, error);
  }
}

std::string gemm_library_name() {
  const dnnl_version_t* version = dnnl_version();
  return fmt::format("oneDNN {}.{}.{}", version->major, version->minor, version->patch);
}

}  // namespace itif::device
