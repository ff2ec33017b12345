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

  // Computes out[0, rows of the rung) = a · Wᵀ, with W at `weight`. `bias`: null for none. Throws.
  void run(const Rung& rung, const std::byte* a, std::byte* weight, std::byte* bias,
           std::byte* out) {
    if (rung.scratch_bytes > scratch_.size()) grow_scratch(rung.scratch_bytes);
    handles_[kA].set_data_handle(const_cast<std::byte*>(a));
    handles_[kWeights].set_data_handle(weight);
    handles_[kOut].set_data_handle(out);
    std::array<dnnl_exec_arg_t, kNumHandles> list = {{
        {DNNL_ARG_SRC, handles_[kA].get()},
        {DNNL_ARG_WEIGHTS, handles_[kWeights].get()},
        {DNNL_ARG_DST, handles_[kOut].get()},
        {DNNL_ARG_SCRATCHPAD, handles_[kScratch].get()},
        {DNNL_ARG_BIAS, handles_[kBias].get()},
    }};
    int count = 4;
    if (bias != nullptr) {
      handles_[kBias].set_data_handle(bias);
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
  std::vector<std::byte> staging_;  // output whose rows lie elsewhere in `out`, or not in it
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
  // Rows of a GEMM, in one part of its columns.
  struct Task {
    const kernels::GroupedGemm* gemm = nullptr;
    uint32_t row = 0;
    uint32_t num_rows = 0;
    uint32_t slot = 0;
    uint32_t part = 0;
    uint32_t num_parts = 1;  // 1: all columns; else ColumnParts::count
    uint32_t columns() const { return gemm->n / num_parts; }
    double products() const { return 1.0 * num_rows * columns() * gemm->k; }
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
  size_t output_bytes(const kernels::GroupedGemm& args, size_t elements) const {
    return elements * (args.f32_out ? sizeof(float) : dtype_bytes(state_->types.activations));
  }
  std::byte* output(const kernels::GroupedGemm& args, size_t row) const {
    return static_cast<std::byte*>(args.out) + output_bytes(args, row * args.n);
  }

  // The primitive of a task on up to so many threads; null: none was prepared.
  static const Rung* rung_for(const Task& task, uint32_t max_threads) {
    const Ladder& whole = ladder_of(*task.gemm);
    const Ladder& ladder = task.num_parts == 1 ? whole : *whole.parts.ladder;
    return ladder.by_threads[max_threads]->of(task.num_rows);
  }
  // Runs a task's primitive. May write rows past the task, up to those of the rung, if it has all
  // columns and `keeps_rows` is false. Throws.
  void run_task(Executor& executor, const Rung& rung, const Task& task, bool keeps_rows) {
    const kernels::GroupedGemm& args = *task.gemm;
    const uint32_t rows = rung_rows(rung_of(task.num_rows)), columns = task.columns();
    std::byte* const weight =
        args.weights.at(task.slot) + task.part * ladder_of(args).parts.weight_bytes;
    std::byte* const bias = args.bias.base == nullptr
                                ? nullptr
                                : args.bias.at(task.slot) + task.part * columns * sizeof(float);
    std::byte* const out = output(args, task.row);
    const bool is_direct = task.num_parts == 1 && (!keeps_rows || rows == task.num_rows);
    const size_t row_bytes = output_bytes(args, columns);
    std::byte* const to = is_direct ? out : executor.staging(rows * row_bytes);
    executor.run(rung, input(args, task.row), weight, bias, to);
    if (is_direct) return;
    for (uint32_t i = 0; i < task.num_rows; ++i)
      std::memcpy(out + output_bytes(args, size_t{i} * args.n + task.part * columns),
                  to + i * row_bytes, row_bytes);
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
  // Returns the parts of columns in which rows of a GEMM run; 1: all columns at once, because the
  // rows fit one turn, or nobody else wants it.
  uint32_t num_parts(const kernels::GroupedGemm& args, uint32_t num_rows) const {
    if (turns_ == nullptr) return 1;
    const double rows = std::max(num_rows, TurnTaker::kMinPartRows);
    const bool fits = turns_->part_units(pace_) >= rows * args.n * args.k;
    return fits ? 1 : ladder_of(args).parts.count;
  }

  Status run_sequentially(const kernels::GroupedGemm& args) {
    for (const kernels::RowRange& range : args.ranges) {
      Task task{.gemm = &args,
                .row = range.first_row,
                .num_rows = 0,
                .slot = range.slot,
                .part = 0,
                .num_parts = num_parts(args, range.num_rows)};
      // By rows within a part, so that its weight stays in the cache.
      for (; task.part < task.num_parts; ++task.part) ITIF_TRY(run_rows(task, range));
    }
    return {};
  }
  Status run_rows(Task task, const kernels::RowRange& range) {
    const double row_products = 1.0 * task.columns() * task.gemm->k;
    const uint32_t most = task.num_parts == 1 ? call_rows(state_->types) : kMaxPartRows;
    const uint32_t end = range.first_row + range.num_rows;
    for (; task.row < end; task.row += task.num_rows) {
      task.num_rows = std::min({end - task.row, most, part_rows(row_products)});
      const Rung* rung = rung_for(task, num_threads_);
      if (rung == nullptr) return not_prepared({task.gemm->n, task.gemm->k}, task.num_rows);
      omp_set_num_threads(static_cast<int>(rung->num_threads));
      if (turns_) turns_->begin_part();
      run_task(executors_[0], *rung, task, false);
      if (turns_) turns_->end_part(pace_, task.products());
    }
    return {};
  }

  // Returns the most rows of a concurrent task, if each thread runs one before others may have the
  // turn.
  uint32_t part_task_rows(double row_products) const {
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
    do products += tasks_[end++].products();
    while (end < tasks_.size() && (end - first < num_threads_ || products < most));
    return end;
  }

  // With company, tasks have all parts of columns that a GEMM has.
  Status add_tasks(std::span<const kernels::GroupedGemm> all) {
    tasks_.clear();
    partitioner_.clear();
    const bool by_parts = turns_ != nullptr && turns_->has_company();
    const auto num_parts = [by_parts](const kernels::GroupedGemm& args) {
      return by_parts ? ladder_of(args).parts.count : 1;
    };
    double row_products = 0;
    uint32_t most_parts = 1;
    for (const kernels::GroupedGemm& args : all) {
      partitioner_.add(args.ranges);
      const uint32_t parts = num_parts(args);
      row_products = std::max(row_products, 1.0 * args.n / parts * args.k);
      most_parts = std::max(most_parts, parts);
    }
    const uint32_t task_rows =
        std::min({partitioner_.partition().task_rows, part_task_rows(row_products),
                  most_parts == 1 ? kMaxCallRows : kMaxPartRows});
    for (const kernels::GroupedGemm& args : all)
      for (const kernels::RowRange& range : args.ranges)
        for (uint32_t row = 0; row < range.num_rows; row += task_rows) {
          Task task{.gemm = &args,
                    .row = range.first_row + row,
                    .num_rows = std::min(range.num_rows - row, task_rows),
                    .slot = range.slot,
                    .part = 0,
                    .num_parts = num_parts(args)};
          if (rung_for(task, 1) == nullptr) return not_prepared({args.n, args.k}, task.num_rows);
          for (; task.part < task.num_parts; ++task.part) tasks_.push_back(task);
        }
    // The largest first, so that threads end at about the same time. stable_sort would allocate.
    std::ranges::sort(tasks_, [](const Task& a, const Task& b) {
      const double a_products = a.products(), b_products = b.products();
      return std::tie(b_products, a.gemm, a.part, a.row) <
             std::tie(a_products, b.gemm, b.part, b.row);
    });
    return {};
  }

  Status run_concurrently(std::span<const kernels::GroupedGemm> all) {
    ITIF_TRY(add_tasks(all));
    std::atomic<const kernels::GroupedGemm*> failed_gemm{nullptr};
    for (size_t first = 0, end = 0; first < tasks_.size(); first = end) {
      double products = 0;
      end = end_of_part(first, products);
      if (turns_) turns_->begin_part();
#pragma omp parallel for schedule(dynamic, 1) num_threads(num_threads_)
      for (size_t i = first; i < end; ++i) {
        const Task& task = tasks_[i];
        try {
          run_task(executors_[static_cast<size_t>(omp_get_thread_num())], *rung_for(task, 1), task,
                   true);
        } catch (const std::exception&) {  // must not leave the parallel region
          failed_gemm.store(task.gemm, std::memory_order_relaxed);
        }
      }
      if (turns_) turns_->end_part(concurrent_pace_, products);
    }
    if (const auto* args = failed_gemm.load()) return failed(*args, "on one of several threads");
    return {};
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
