#include "device/host/gemm.h"

#include <fmt/format.h>
#include <omp.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <exception>
#include <functional>
#include <mutex>
#include <oneapi/dnnl/dnnl.hpp>
#include <vector>

#include "base/check.h"
#include "device/host/convert.h"

namespace itif::device {
namespace {

constexpr uint32_t kFineRungs = 4;  // 1, 2, 4, 8
constexpr uint32_t kStep = GemmLibrary::kRowSlack + 1;
constexpr uint32_t kNumRungs = kFineRungs + GemmLibrary::kMaxRows / kStep;

uint32_t rung_of(uint32_t rows) {
  if (rows <= 1) return 0;
  if (rows <= 8) return rows <= 2 ? 1 : rows <= 4 ? 2 : 3;
  return kFineRungs + (rows - 1) / kStep;
}
uint32_t rung_rows(uint32_t rung) {
  return rung < kFineRungs ? 1u << rung : (rung - kFineRungs + 1) * kStep;
}

// oneDNN splits work by the OpenMP setting of the calling thread: when a primitive is created and when
// it runs. Control threads pack with one, so as not to start a second pool beside the executor's.
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

// A GEMM of fewer products runs on its caller alone: 1 to 10 µs of work, of which a second thread can take
// some at best, and on busy cores has to be waited for. A decoder's steps are made of such GEMMs.
constexpr uint64_t kLeastSharedProducts = 1u << 19;

struct Rung {
  uint32_t num_threads = 1;
  dnnl::matmul primitive;
  size_t scratch_bytes = 0;
};

// Primitives for one number of threads, by rung. They are added while streams look them up.
struct Rungs {
  std::array<std::unique_ptr<Rung>, kNumRungs> owned;
  std::array<std::atomic<const Rung*>, kNumRungs> shared{};

  const Rung* of(uint32_t rows) const {
    return shared[rung_of(rows)].load(std::memory_order_acquire);
  }
};

// The primitives of one (n, k, has_bias, f32_out).
struct Ladder final : kernels::PreparedGemm {
  uint32_t n = 0;
  uint32_t k = 0;
  bool has_bias = false;
  bool f32_out = false;
  dnnl::memory::desc weights;  // the same layout for every rung
  Rungs all_threads, one_thread;

  bool is(const GemmShape& shape) const {
    return n == shape.n && k == shape.k && has_bias == shape.has_bias && f32_out == shape.f32_out;
  }
};

dnnl::memory::data_type dnnl_type(DType type) {
  return type == DType::kBF16 ? dnnl::memory::data_type::bf16 : dnnl::memory::data_type::f32;
}

}  // namespace

struct GemmLibrary::State {
  State(DType compute, uint32_t num_threads)
      : compute(compute), num_threads(num_threads), engine(dnnl::engine::kind::cpu, 0) {}

  const DType compute;
  const uint32_t num_threads;
  dnnl::engine engine;
  std::mutex mutex;  // of creation; look-ups take none
  std::vector<std::weak_ptr<Ladder>> ladders;
  std::atomic<size_t> scratch_bytes{0};  // of the hungriest primitive so far
  std::atomic<size_t> staging_bytes{0};  // of the widest task's output so far

  dnnl::matmul::primitive_desc describe(const Ladder& ladder, uint32_t rows,
                                        const dnnl::memory::desc& weights) {
    using dnnl::memory;
    const memory::data_type type = dnnl_type(compute);
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

  // The ladder of a shape, shared with whoever holds it. REQUIRES: mutex is held. Throws.
  std::shared_ptr<Ladder> find_or_add(const GemmShape& shape) {
    std::erase_if(ladders, [](const std::weak_ptr<Ladder>& ladder) { return ladder.expired(); });
    for (const std::weak_ptr<Ladder>& known : ladders)
      if (std::shared_ptr<Ladder> ladder = known.lock(); ladder && ladder->is(shape)) return ladder;
    auto ladder = std::make_shared<Ladder>();
    ladder->n = shape.n;
    ladder->k = shape.k;
    ladder->has_bias = shape.has_bias;
    ladder->f32_out = shape.f32_out;
    // The layout that a middling number of rows likes; the others came out equal where measured, and
    // are made to take it in any case.
    const dnnl::memory::desc any({shape.k, shape.n}, dnnl_type(compute),
                                 dnnl::memory::format_tag::any);
    const OpenMpThreads threads(num_threads);
    ladder->weights = describe(*ladder, 128, any).weights_desc();
    ladders.push_back(ladder);
    return ladder;
  }

  void add_rungs(Ladder& ladder, Rungs& rungs, uint32_t last, uint32_t threads) {
    for (uint32_t rung = 0; rung <= last; ++rung)
      if (!rungs.owned[rung]) add_rung(ladder, rungs, rung, threads);
  }

  void add_rung(const Ladder& ladder, Rungs& rungs, uint32_t index, uint32_t most_threads) {
    auto rung = std::make_unique<Rung>();
    const uint64_t products = uint64_t{rung_rows(index)} * ladder.n * ladder.k;
    rung->num_threads = products < kLeastSharedProducts ? 1 : most_threads;
    const OpenMpThreads threads(rung->num_threads);
    const auto description = describe(ladder, rung_rows(index), ladder.weights);
    rung->primitive = dnnl::matmul(description);
    rung->scratch_bytes = description.scratchpad_desc().get_size();
    raise(scratch_bytes, rung->scratch_bytes);
    rungs.owned[index] = std::move(rung);
    rungs.shared[index].store(rungs.owned[index].get(), std::memory_order_release);
  }

  static void raise(std::atomic<size_t>& most, size_t value) {
    if (value > most.load(std::memory_order_relaxed)) most.store(value, std::memory_order_relaxed);
  }
};

namespace {

// What one thread needs to run primitives: oneDNN's stream, and handles for addresses that change with
// every call.
class Executor {
 public:
  explicit Executor(const dnnl::engine& engine) : stream_(engine) {
    // oneDNN takes the layouts from the primitive, so that these need none; with the true ones it would
    // write zeros into the padding of the (shared) weights whenever an address is set.
    const dnnl::memory::desc bytes({1}, dnnl::memory::data_type::u8, dnnl::memory::format_tag::a);
    for (dnnl::memory& handle : handles_) handle = dnnl::memory(bytes, engine, nullptr);
  }

  // out[0, rows of the rung) = a · W of the slot. Throws.
  void run(const Rung& rung, const kernels::GroupedGemm& args, uint32_t slot, const std::byte* a,
           std::byte* out) {
    if (rung.scratch_bytes > scratch_.size()) grow_scratch(rung.scratch_bytes);
    handles_[kA].set_data_handle(const_cast<std::byte*>(a));
    handles_[kWeights].set_data_handle(args.weights.at(slot));
    handles_[kOut].set_data_handle(out);
    std::array<dnnl_exec_arg_t, kNumHandles> list = {{
        {DNNL_ARG_SRC, handles_[kA].get()},
        {DNNL_ARG_WEIGHTS, handles_[kWeights].get()},
        {DNNL_ARG_DST, handles_[kOut].get()},
        {DNNL_ARG_SCRATCHPAD, handles_[kScratch].get()},
        {DNNL_ARG_BIAS, handles_[kBias].get()},
    }};
    int count = 4;
    if (args.bias.base != nullptr) {
      handles_[kBias].set_data_handle(args.bias.at(slot));
      count = 5;
    }
    dnnl::error::wrap_c_api(
        dnnl_primitive_execute(rung.primitive.get(), stream_.get(), count, list.data()),
        "could not run a matmul");
  }

  // When the stream is made; on a launch only if a larger shape has been prepared since.
  void grow_scratch(size_t bytes) {
    scratch_.resize(bytes + 64);
    const auto address = reinterpret_cast<uintptr_t>(scratch_.data());
    handles_[kScratch].set_data_handle(reinterpret_cast<void*>((address + 63) / 64 * 64));
  }
  std::byte* staging(size_t bytes) {
    if (bytes > staging_.size()) staging_.resize(bytes);
    return staging_.data();
  }

 private:
  enum Handle { kA, kWeights, kBias, kOut, kScratch, kNumHandles };

  dnnl::stream stream_;
  std::array<dnnl::memory, kNumHandles> handles_;
  std::vector<std::byte> scratch_;
  std::vector<std::byte> staging_;  // rows of a rung that are more than a task's
};

class DnnlRunner final : public GemmLibrary::Runner {
 public:
  explicit DnnlRunner(std::shared_ptr<GemmLibrary::State> state) : state_(std::move(state)) {
    for (uint32_t thread = 0; thread < state_->num_threads; ++thread) {
      executors_.emplace_back(state_->engine);
      executors_.back().grow_scratch(state_->scratch_bytes.load(std::memory_order_relaxed));
      executors_.back().staging(state_->staging_bytes.load(std::memory_order_relaxed));
    }
  }

  Status run(const kernels::GroupedGemm& args) override {
    DCHECK(args.a != args.out);
    const GemmShape shape{
        .n = args.n, .k = args.k, .has_bias = args.bias.base != nullptr, .f32_out = args.f32_out};
    const auto* ladder = static_cast<const Ladder*>(args.prepared);
    if (ladder == nullptr || !ladder->is(shape)) return not_prepared(shape, 0);
    try {
      if (args.mode == kernels::GemmMode::kAtOnce && state_->num_threads > 1)
        return run_at_once(*ladder, args);
      return run_in_turn(*ladder, args);
    } catch (const std::exception& error) {  // dnnl::error, or no memory for scratch
      return failed(args, error.what());
    }
  }

 private:
  struct Task {
    uint32_t row = 0;
    uint32_t num_rows = 0;
    uint32_t slot = 0;
  };

  static std::unexpected<Error> not_prepared(const GemmShape& shape, uint32_t rows) {
    return fail(Code::kInternal,
                fmt::format("a GEMM of {} × {}{} for {} rows was not prepared", shape.n, shape.k,
                            shape.has_bias ? " with bias" : "", rows));
  }
  static std::unexpected<Error> failed(const kernels::GroupedGemm& args, const char* what) {
    return fail(Code::kInternal,
                fmt::format("oneDNN failed a GEMM of {} × {}: {}", args.n, args.k, what));
  }
  const std::byte* input(const kernels::GroupedGemm& args, size_t row) const {
    return static_cast<const std::byte*>(args.a) + row * args.k * dtype_bytes(state_->compute);
  }
  size_t output_row_bytes(const kernels::GroupedGemm& args) const {
    return args.n * (args.f32_out ? sizeof(float) : dtype_bytes(state_->compute));
  }
  std::byte* output(const kernels::GroupedGemm& args, size_t row) const {
    return static_cast<std::byte*>(args.out) + row * output_row_bytes(args);
  }

  Status run_in_turn(const Ladder& ladder, const kernels::GroupedGemm& args) {
    for (const kernels::RowRange& range : args.ranges) {
      const uint32_t end = range.first_row + range.num_rows;
      for (uint32_t row = range.first_row; row < end;) {
        const uint32_t rows = std::min(end - row, GemmLibrary::kMaxRows);
        const Rung* rung = ladder.all_threads.of(rows);
        if (rung == nullptr) return not_prepared({args.n, args.k}, rows);
        omp_set_num_threads(static_cast<int>(rung->num_threads));
        executors_[0].run(*rung, args, range.slot, input(args, row), output(args, row));
        row += rows;
      }
    }
    return {};
  }

  // The largest tasks first, so that threads end at about the same time.
  Status run_at_once(const Ladder& ladder, const kernels::GroupedGemm& args) {
    tasks_.clear();
    for (const kernels::RowRange& range : args.ranges)
      for (uint32_t row = 0; row < range.num_rows; row += GemmLibrary::kAtOnceRows)
        tasks_.push_back({range.first_row + row,
                          std::min(range.num_rows - row, GemmLibrary::kAtOnceRows), range.slot});
    std::ranges::stable_sort(tasks_, std::greater(), &Task::num_rows);
    for (const Task& task : tasks_)
      if (ladder.one_thread.of(task.num_rows) == nullptr)
        return not_prepared({args.n, args.k}, task.num_rows);
    std::atomic<bool> all_done{true};
    const auto count = static_cast<int64_t>(tasks_.size());
#pragma omp parallel for schedule(dynamic, 1) num_threads(state_->num_threads)
    for (int64_t i = 0; i < count; ++i) {
      try {
        run_task(executors_[static_cast<size_t>(omp_get_thread_num())], ladder, args,
                 tasks_[static_cast<size_t>(i)]);
      } catch (const std::exception&) {  // must not leave the parallel region
        all_done.store(false, std::memory_order_relaxed);
      }
    }
    if (!all_done) return failed(args, "on one of several threads");
    return {};
  }

  void run_task(Executor& executor, const Ladder& ladder, const kernels::GroupedGemm& args,
                const Task& task) {
    const Rung& rung = *ladder.one_thread.of(task.num_rows);
    const uint32_t rows = rung_rows(rung_of(task.num_rows));
    const size_t row_bytes = output_row_bytes(args);
    std::byte* out = output(args, task.row);
    std::byte* to = rows == task.num_rows ? out : executor.staging(rows * row_bytes);
    executor.run(rung, args, task.slot, input(args, task.row), to);
    if (to != out) std::memcpy(out, to, task.num_rows * row_bytes);
  }

  std::shared_ptr<GemmLibrary::State> state_;
  std::vector<Executor> executors_;  // by thread
  std::vector<Task> tasks_;
};

std::unexpected<Error> no_gemm(DType compute, const GemmShape& shape, const std::exception& error) {
  return fail(Code::kUnsupported, fmt::format("oneDNN has no {} GEMM of {} × {}: {}",
                                              dtype_name(compute), shape.n, shape.k, error.what()));
}

}  // namespace

GemmLibrary::GemmLibrary(DType compute, uint32_t num_threads)
    : state_(std::make_shared<State>(compute, num_threads)) {}
GemmLibrary::~GemmLibrary() = default;

Result<size_t> GemmLibrary::packed_bytes(const GemmShape& shape) {
  const std::lock_guard lock(state_->mutex);
  try {
    return state_->find_or_add(shape)->weights.get_size();
  } catch (const std::exception& error) {
    return no_gemm(state_->compute, shape, error);
  }
}

size_t GemmLibrary::num_prepared() const {
  const std::lock_guard lock(state_->mutex);
  return static_cast<size_t>(std::ranges::count_if(
      state_->ladders, [](const std::weak_ptr<Ladder>& ladder) { return !ladder.expired(); }));
}

Status GemmLibrary::pack(const GemmShape& shape, std::span<const TensorView> weight, void* target) {
  using dnnl::memory;
  uint64_t elements = 0;
  for (const TensorView& view : weight) elements += view.shape.elements();
  if (elements != uint64_t{shape.n} * shape.k)
    return fail(Code::kInvalidArgument,
                fmt::format("weights of {} elements do not fill a GEMM of {} × {}", elements,
                            shape.n, shape.k));
  const DType type = state_->compute;
  std::vector<std::byte> rows(elements * dtype_bytes(type));
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
    state_->add_rungs(*ladder, ladder->all_threads, rung_of(std::min(max_rows, kMaxRows)),
                      state_->num_threads);
    if (state_->num_threads > 1) {
      state_->add_rungs(*ladder, ladder->one_thread, rung_of(std::min(max_rows, kAtOnceRows)), 1);
      State::raise(state_->staging_bytes,
                   size_t{kAtOnceRows} * shape.n *
                       (shape.f32_out ? sizeof(float) : dtype_bytes(state_->compute)));
    }
    return GemmHandle(ladder);
  } catch (const std::exception& error) {
    return no_gemm(state_->compute, shape, error);
  }
}

Result<std::unique_ptr<GemmLibrary::Runner>> GemmLibrary::make_runner() {
  try {
    return std::make_unique<DnnlRunner>(state_);
  } catch (const dnnl::error& error) {
    return fail(Code::kInternal, fmt::format("oneDNN cannot make a stream: {}", error.what()));
  }
}

std::string gemm_library_name() {
  const dnnl_version_t* version = dnnl_version();
  return fmt::format("oneDNN {}.{}.{}", version->major, version->minor, version->patch);
}

}  // namespace itif::device
