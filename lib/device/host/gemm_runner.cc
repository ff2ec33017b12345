// Runs grouped GEMMs: ranges sequentially on all threads, or concurrently on one thread each.
#include <fmt/format.h>
#include <omp.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <limits>
#include <tuple>

#include "base/check.h"
#include "device/host/gemm.h"
#include "device/host/gemm_ladder.h"

namespace itif::device {
namespace {

static_assert([] {
  for (uint32_t rows = 1; rows <= GemmPartitioner::kMaxTaskRows; ++rows)
    if (rung_rows(rung_of(rows)) != GemmPartitioner::whole_rows(rows)) return false;
  return true;
}());

// Runs primitives on one thread. Holds oneDNN's stream, and handles for addresses that change with
// every call.
class Executor {
 public:
  explicit Executor(const dnnl::engine& engine) : stream_(engine) {
    // oneDNN takes the layouts from the primitive, so the handles need none. With the true layouts
    // it would zero the padding of the (shared) weights each time an address is set.
    const dnnl::memory::desc bytes({1}, dnnl::memory::data_type::u8, dnnl::memory::format_tag::a);
    for (dnnl::memory& handle : handles_) handle = dnnl::memory(bytes, engine, nullptr);
  }

  // Computes out[0, rows of the rung) = a · Wᵀ with the slot's W. Throws.
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

  // Called when the stream is made. A launch calls it only if a larger shape was prepared since.
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
  std::vector<std::byte> staging_;  // output of tasks with fewer rows than their rung
};

class DnnlRunner final : public GemmLibrary::Runner {
 public:
  DnnlRunner(std::shared_ptr<GemmState> state, uint32_t num_threads)
      : state_(std::move(state)), num_threads_(num_threads), partitioner_(num_threads) {
    for (uint32_t thread = 0; thread < num_threads_; ++thread) {
      executors_.emplace_back(state_->engine);
      executors_.back().grow_scratch(state_->scratch_bytes.load(std::memory_order_relaxed));
      executors_.back().staging(state_->staging_bytes.load(std::memory_order_relaxed));
    }
  }

  Status run(std::span<const kernels::GroupedGemm> all, TurnTaker* turns) override {
    turns_ = turns;
    for (const kernels::GroupedGemm& args : all) {
      DCHECK(args.a != args.out);
      const GemmShape shape{
          .n = args.n, .k = args.k, .has_bias = args.bias.base != nullptr, .f32_out = args.f32_out};
      if (args.prepared == nullptr || !ladder_of(args).is(shape)) return not_prepared(shape, 0);
    }
    const bool may_share = num_threads_ > 1;
    const kernels::GroupedGemm* running = all.data();
    try {
      if (have_same_calls(all)) return run_calls(all);
      if (may_share && std::ranges::all_of(all, runs_concurrently)) return run_concurrently(all);
      for (const kernels::GroupedGemm& args : all) {
        running = &args;
        if (!args.schedule.calls().empty()) {
          ITIF_TRY(run_calls({&args, 1}));
          continue;
        }
        ITIF_TRY(may_share && runs_concurrently(args) ? run_concurrently({&args, 1})
                                                      : run_sequentially(args));
      }
    } catch (const std::exception& error) {  // dnnl::error, or no memory for scratch
      return failed(*running, error.what());
    }
    return {};
  }

 private:
  struct Task {
    const kernels::GroupedGemm* gemm = nullptr;
    uint32_t row = 0;
    uint32_t num_rows = 0;
    uint32_t slot = 0;
    uint64_t products = 0;
  };

  static const Ladder& ladder_of(const kernels::GroupedGemm& args) {
    return static_cast<const Ladder&>(*args.prepared);
  }
  static bool runs_concurrently(const kernels::GroupedGemm& args) {
    return args.schedule.calls().empty() &&
           args.schedule.mode_of(args.n, args.k) == kernels::GemmMode::kConcurrent;
  }
  static bool have_same_calls(std::span<const kernels::GroupedGemm> all) {
    return !all.empty() && !all[0].schedule.calls().empty() &&
           std::ranges::all_of(all, [&](const kernels::GroupedGemm& args) {
             return args.ranges.size() == all[0].ranges.size() &&
                    std::ranges::equal(args.schedule.calls(), all[0].schedule.calls());
           });
  }

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
    return static_cast<const std::byte*>(args.a) +
           row * args.k * dtype_bytes(state_->types.activations);
  }
  size_t output_row_bytes(const kernels::GroupedGemm& args) const {
    return args.n * (args.f32_out ? sizeof(float) : dtype_bytes(state_->types.activations));
  }
  std::byte* output(const kernels::GroupedGemm& args, size_t row) const {
    return static_cast<std::byte*>(args.out) + row * output_row_bytes(args);
  }

  // Runs planned calls in their order, which is that of their rows. REQUIRES: have_same_calls().
  Status run_calls(std::span<const kernels::GroupedGemm> all) {
    size_t first = 0;
    for (const kernels::GemmCall& call : all[0].schedule.calls()) {
      call_.assign(all.begin(), all.end());
      for (kernels::GroupedGemm& args : call_)
        args.ranges = args.ranges.subspan(first, call.num_ranges);
      first += call.num_ranges;
      if (call.num_ranges > 1 && num_threads_ > 1) {
        ITIF_TRY(run_concurrently(call_));
        continue;
      }
      for (const kernels::GroupedGemm& args : call_) ITIF_TRY(run_sequentially(args));
    }
    return {};
  }

  // Returns the number of rows after which others may have the turn.
  uint32_t part_rows(double row_products) const {
    const double rows = turns_ ? turns_->part_units(pace_) / row_products : UINT32_MAX;
    if (rows >= kMaxCallRows) return kMaxCallRows;
    return std::max(TurnTaker::kMinPartRows, static_cast<uint32_t>(rows) / kStep * kStep);
  }

  Status run_sequentially(const kernels::GroupedGemm& args) {
    const double row_products = static_cast<double>(args.n) * args.k;
    for (const kernels::RowRange& range : args.ranges) {
      const uint32_t end = range.first_row + range.num_rows;
      for (uint32_t row = range.first_row; row < end;) {
        const uint32_t rows =
            std::min({end - row, call_rows(state_->types), part_rows(row_products)});
        const Rung* rung = ladder_of(args).by_threads[num_threads_]->of(rows);
        if (rung == nullptr) return not_prepared({args.n, args.k}, rows);
        omp_set_num_threads(static_cast<int>(rung->num_threads));
        if (turns_) turns_->begin_part();
        executors_[0].run(*rung, args, range.slot, input(args, row), output(args, row));
        if (turns_) turns_->end_part(pace_, row_products * rows);
        row += rows;
      }
    }
    return {};
  }

  // Returns the most rows of a concurrent task, if each thread runs one before others may have the
  // turn.
  uint32_t part_task_rows(std::span<const kernels::GroupedGemm> all) const {
    double row_products = 0;
    for (const kernels::GroupedGemm& args : all)
      row_products = std::max(row_products, static_cast<double>(args.n) * args.k);
    const double rows =
        turns_ ? turns_->part_units(concurrent_pace_) / (row_products * num_threads_) : UINT32_MAX;
    if (rows >= kMaxCallRows) return kMaxCallRows;
    return std::max(TurnTaker::kMinPartRows / 2, static_cast<uint32_t>(rows) / kStep * kStep);
  }

  // Returns the end of the tasks from `first` on that run before others may have the turn.
  size_t end_of_part(size_t first, double& products) const {
    const double most =
        turns_ ? turns_->part_units(concurrent_pace_) : std::numeric_limits<double>::infinity();
    size_t end = first;
    products = 0;
    do products += static_cast<double>(tasks_[end++].products);
    while (end < tasks_.size() && (end - first < num_threads_ || products < most));
    return end;
  }

  // Runs the largest tasks first, so that threads end at about the same time.
  Status run_concurrently(std::span<const kernels::GroupedGemm> all) {
    tasks_.clear();
    partitioner_.clear();
    for (const kernels::GroupedGemm& args : all) partitioner_.add(args.ranges);
    const uint32_t task_rows = std::min(partitioner_.partition().task_rows, part_task_rows(all));
    for (const kernels::GroupedGemm& args : all)
      for (const kernels::RowRange& range : args.ranges)
        for (uint32_t row = 0; row < range.num_rows; row += task_rows) {
          const uint32_t rows = std::min(range.num_rows - row, task_rows);
          if (ladder_of(args).by_threads[1]->of(rows) == nullptr)
            return not_prepared({args.n, args.k}, rows);
          tasks_.push_back(
              {&args, range.first_row + row, rows, range.slot, uint64_t{rows} * args.n * args.k});
        }
    // stable_sort would allocate.
    std::ranges::sort(tasks_, [](const Task& a, const Task& b) {
      return std::tie(b.products, a.gemm, a.row) < std::tie(a.products, b.gemm, b.row);
    });
    std::atomic<const kernels::GroupedGemm*> failed_gemm{nullptr};
    for (size_t first = 0, end = 0; first < tasks_.size(); first = end) {
      double products = 0;
      end = end_of_part(first, products);
      if (turns_) turns_->begin_part();
#pragma omp parallel for schedule(dynamic, 1) num_threads(num_threads_)
      for (size_t i = first; i < end; ++i) {
        const Task& task = tasks_[i];
        try {
          run_task(executors_[static_cast<size_t>(omp_get_thread_num())], task);
        } catch (const std::exception&) {  // must not leave the parallel region
          failed_gemm.store(task.gemm, std::memory_order_relaxed);
        }
      }
      if (turns_) turns_->end_part(concurrent_pace_, products);
    }
    if (const auto* args = failed_gemm.load()) return failed(*args, "on one of several threads");
    return {};
  }

  void run_task(Executor& executor, const Task& task) {
    const kernels::GroupedGemm& args = *task.gemm;
    const Rung& rung = *ladder_of(args).by_threads[1]->of(task.num_rows);
    const uint32_t rows = rung_rows(rung_of(task.num_rows));
    const size_t row_bytes = output_row_bytes(args);
    std::byte* out = output(args, task.row);
    std::byte* to = rows == task.num_rows ? out : executor.staging(rows * row_bytes);
    executor.run(rung, args, task.slot, input(args, task.row), to);
    if (to != out) std::memcpy(out, to, task.num_rows * row_bytes);
  }

  std::shared_ptr<GemmState> state_;
  const uint32_t num_threads_;
  TurnTaker* turns_ = nullptr;  // of the launch that runs
  // Per product: of whole GEMMs, and of tasks that run concurrently.
  TurnTaker::Pace pace_, concurrent_pace_;
  std::vector<Executor> executors_;  // by thread
  GemmPartitioner partitioner_;
  std::vector<Task> tasks_;
  std::vector<kernels::GroupedGemm> call_;  // GEMMs of one planned call
};

}  // namespace

Result<std::unique_ptr<GemmLibrary::Runner>> GemmLibrary::make_runner(uint32_t num_threads) {
  CHECK(num_threads > 0 && num_threads <= state_->num_threads);
  const std::lock_guard lock(state_->mutex);
  try {
    state_->add_thread_count(num_threads);
    return std::make_unique<DnnlRunner>(state_, num_threads);
  } catch (const std::exception& error) {
    return fail(Code::kInternal, fmt::format("oneDNN cannot make a stream: {}", error.what()));
  }
}

}  // namespace itif::device
