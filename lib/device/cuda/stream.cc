#include "device/cuda/stream.h"

#include <algorithm>
#include <array>
#include <vector>

#include "base/check.h"
#include "device/cuda/cudnn/cudnn_attention.h"
#include "device/cuda/driver/error.h"
#include "device/cuda/gemm/gemm.h"
#include "device/cuda/gemm/pending_bias.h"
#include "device/cuda/graph/graph_segments.h"
#include "device/cuda/graph/graphs.h"
#include "device/cuda/graph/results.h"
#include "device/cuda/memory/pixel_plan.h"
#include "device/cuda/memory/plan_memory.h"
#include "device/cuda/slices/stream_slices.h"
#include "device/cuda/stream_context.h"
#include "device/cuda/work.h"
#include "device/threads.h"
#include "kernels/cuda/operators.h"
#include "kernels/cuda/plan.h"

namespace itif::device::cuda {
namespace {

using kernels::cuda::count;
using kernels::cuda::Rows;

class CudaStream final : public Stream, private kernels::cuda::Plan {
 public:
  static Result<std::unique_ptr<Stream>> make(const StreamParts& parts, const StreamLimits& limits,
                                              const StreamOptions& options) {
    ITIF_ASSIGN(auto slices, StreamSlices::make(parts.slices, &StreamContext::make));
    std::unique_ptr<CudaStream> made(new CudaStream(parts, std::move(slices), options));
    ITIF_ASSIGN(made->gemms_, Gemms::make(parts.compute, parts.processors, made->slices_->here(),
                                          *made->context().blas, parts.budget));
    if (parts.cudnn != nullptr) {
      ITIF_ASSIGN(made->cudnn_,
                  CudnnAttention::make(*parts.cudnn, parts.compute.activations, parts.cudnn_only,
                                       made->stream(), parts.budget));
    }
    ITIF_ASSIGN(const std::shared_ptr<Buffer> plan,
                allocate_buffer(parts.budget, PlanMemory::bytes_of(limits)));
    ITIF_ASSIGN(const auto staging, ResultStaging::make(parts.budget, limits.result_bytes));
    for (Work& work : made->works_) {
      ITIF_ASSIGN(work.plan, PlanMemory::make(plan));
      ITIF_ASSIGN(work.results, Results::make(staging));
      ITIF_ASSIGN(work.reads, HostReads::make(*parts.registered, limits.unregistered_bytes));
      work.events = made->events_of(work);
    }
    if (options.share.percent > 0) made->set_percent(options.share.percent);
    return made;
  }
  ~CudaStream() override {
    (void)cudaStreamSynchronize(stream());
    gemms_.reset();
    cudnn_.reset();
  }

  void attach_thread() override {
    use_cpus(cpus_);
    (void)cudaGetLastError();  // the thread keeps the error of a fault before a reset
    launch_.keep(cudaSetDevice(ordinal_));
  }

  void set_percent(double percent) noexcept override { slices_->set_percent(percent); }
  Slice slice() const noexcept override {
    return {.processors = slices_->here().processors, .switches = slices_->num_moves()};
  }

  void dispatch(kernels::Operator op) override {
    begin_batch();
    std::visit([this](const auto* args) { run(*args); }, op);
  }

  void end_graph_segment() override {
    launch_pending_bias();
    if (segments_.end_segment()) plan().end_graph_segment();
  }
  void begin_step() override {
    end_graph_segment();
    plan().begin_step();
  }
  void use_graphs(bool use) override { uses_graphs_ = use; }
  Status warm_up() override {
    CHECK(!work().results->has_unstaged());
    launch_pending_bias();
    launch_.keep(slices_->here().enter());
    const uint64_t failures = graphs_.num_failed_captures();
    bool has_graph = false;
    segments_.for_each([&](const GraphSegment& segment) {
      launch_.keep(graphs_.prepare(stream(), segment));
      keep(gemms_->load(segment, slices_->other_counts()));
      has_graph |= graphs_.has_graph(segment);
    });
    if (!has_graph && graphs_.num_failed_captures() == failures)
      graphs_.count_unworthy(segments_.log().end().size);
    forget();
    ends_inputs_ = false;
    work().plan.clear();
    work().reads->clear();
    is_between_batches_ = true;
    return take_status();
  }
  Graphs graphs() const noexcept override {
    return {.kept = graphs_.size(),
            .launches = graphs_.num_graph_launches(),
            .failures = graphs_.num_failed_captures()};
  }
  uint64_t refused_gemms() const noexcept override { return gemms_->num_refusals(); }

  void copy_to_host(const void* source, size_t bytes, void* target) override {
    begin_batch();
    launch_pending_bias();
    work().results->add(source, bytes, target);
  }
  void end_inputs() override {
    CHECK(!ends_inputs_ && !work().has_inputs_read);
    end_graph_segment();
    ends_inputs_ = true;
    num_input_segments_ = segments_.size();
  }
  bool inputs_read(Event event) const noexcept override {
    const Work& work = works_[event % works_.size()];
    return work.has_inputs_read ? work.events->inputs_read.has_come() : work.events->end.has_come();
  }

  Event record() override {
    CHECK(next_event_ - next_wait_ < kMaxPending);
    stage_copies();
    flush();
    launch_.keep(work().results->copy(stream()));
    launch_.keep(work().events->end.record(stream()));
    work().status = take_status();
    is_between_batches_ = true;
    return next_event_++;
  }
  bool is_done(Event event) const noexcept override {
    return works_[event % works_.size()].events->end.has_come();
  }
  // Polling costs less than a driver callback.
  bool calls_on_done() const noexcept override { return false; }
  Completion wait(Event event) override {
    CHECK(event == next_wait_ && event < next_event_);
    ++next_wait_;
    return works_[event % works_.size()].finish();
  }
  Status synchronize() override {
    CHECK(next_event_ == next_wait_);
    return wait(record()).status;
  }

 private:
  CudaStream(const StreamParts& parts, std::unique_ptr<StreamSlices> slices,
             const StreamOptions& options)
      : slices_(std::move(slices)),
        processors_(parts.processors),
        graphs_(parts.graph_budget),
        launch_(segments_.log(), parts.compute.activations, parts.processors),
        ordinal_(parts.ordinal),
        cpus_(options.share.cpus),
        registered_(parts.registered) {}

  cudaStream_t stream() const { return slices_->here().streams[0]; }
  const StreamContext& context() const { return StreamContext::of(slices_->here()); }
  const WorkEvents* events_of(const Work& work) const {
    return &context().events[static_cast<size_t>(&work - works_.data())];
  }
  // Moves to another slice if the stream has been given one.
  void begin_batch() {
    if (!std::exchange(is_between_batches_, false) || !slices_->wants_to_move()) return;
    launch_.keep(slices_->move());
    const SliceStreams& here = slices_->here();
    keep(gemms_->use_streams(here, *context().blas));
    if (cudnn_ != nullptr) keep(cudnn_->use_stream(stream()));
    graphs_.use_slice(here.slice);
    kernels::cuda::Processors processors = processors_;
    if (here.processors > 0) processors.count = here.processors;
    launch_.use_processors(processors);
  }

  template <class Args>
  void run(const Args& args) {
    if constexpr (requires { pending_bias_.take_for(args, rows(args.ranges)); }) {
      const kernels::Slab bias = pending_bias_.take_for(args, rows(args.ranges));
      Args with_bias = args;
      if (bias.base != nullptr) with_bias.bias = bias;
      run_kernels(with_bias);
    } else {
      run_kernels(args);
    }
  }
  void run(const kernels::GatherIds& args) {
    ids_.clear();
    for (const kernels::IdPiece& piece : args.pieces) {
      auto& run = ids_.emplace_back(nullptr, piece.first_row, piece.num_ids, piece.id_bytes == 4);
      const size_t bytes = size_t{piece.num_ids} * piece.id_bytes;
      if (bytes > 0 && (run.data = readable(piece.data, bytes)) == nullptr) return;
    }
    const auto* pieces = put(std::span<const kernels::cuda::IdRun>(ids_));
    if (pieces == nullptr) return;
    kernels::cuda::gather_ids(launch(args, pieces, count(args.pieces)), args, pieces,
                              count(args.pieces));
  }
  void run(const kernels::GatherPatches& args) {
    pixels_.clear();
    for (const kernels::ImagePixels& image : args.images)
      if (!pixels_.add(image, args.channels, *work().reads))
        return launch_.keep(cudaErrorMemoryAllocation);
    pixels_.fill();
    const auto* images = put(pixels_.images());
    const auto* pieces = plan().put_with_capacity(launch_, pixels_.pieces());
    const float* scales = plan().put_with_capacity(launch_, pixels_.scales());
    if (images == nullptr || pieces == nullptr) return;
    kernels::cuda::gather_patches(launch(args, images, count(args.images), pieces, scales), args,
                                  images, count(args.images), pieces, scales);
  }
  void run(const kernels::GroupedGemms& gemms) {
    stage_copies();
    keep(gemms_->run(launch_, plan(), segments_.key(), gemms.all));
    for (const kernels::GroupedGemm& args : gemms.all) {
      if (args.bias.base == nullptr && args.activation == kernels::Activation::kNone) continue;
      if (gemms_->has_epilogue(args)) continue;
      const kernels::BiasActivation behind = {.x = args.out,
                                              .bias = args.bias,
                                              .width = args.n,
                                              .activation = args.activation,
                                              .ranges = args.ranges};
      const Rows all = rows(args.ranges);
      if (gemms.all.size() == 1 && !args.f32_out && args.activation == kernels::Activation::kNone) {
        if (all.count > 0) pending_bias_.hold(behind, all);
        continue;
      }
      if (!args.f32_out) {
        run(behind);
        continue;
      }
      // These results are f32, regardless of the activation type.
      const kernels::cuda::Launcher of_floats(segments_.log(), DType::kF32, launch_.processors());
      (void)launch(behind, DType::kF32, all.count, all.slots);
      kernels::cuda::bias_activation(of_floats, behind, all);
    }
  }
  void run(const kernels::Attention& args) {
    if (cudnn_ != nullptr && cudnn_->can_run(args)) {
      stage_copies();
      return cudnn_->run(launch_, plan(), segments_.key(), args);
    }
    const auto* held = pending_bias_.held_for(launch_.activation(), args);
    const auto [tiles, num_tiles] = plan().attention_tiles(launch_, args, held);
    const auto* keys = plan().attention_keys(launch_, args);
    if (tiles == nullptr || (keys == nullptr && !args.score_matrices.empty())) return;
    const kernels::Slab bias = held == nullptr ? kernels::Slab{} : pending_bias_.take()->args.bias;
    kernels::cuda::attention(launch(args, tiles, num_tiles, bias, keys), args, tiles, num_tiles,
                             bias, keys);
  }
  void run(const kernels::AddLowRank& args) {
    const auto bias = pending_bias_.take_over(args);
    run_kernels(args);
    if (bias) pending_bias_.hold(bias->args, bias->rows);
  }
  void run(const kernels::BatchedGemm& args) {
    stage_copies();
    gemms_->run(launch_, segments_.key(), args);
  }
  // Runs an operator of kernels/cuda.
  template <class Args>
  void run_kernels(const Args& args) {
    static constexpr char kOperator = 0;
    arguments_.clear();
    arguments_.add(&kOperator);
    arguments_.add_arguments(args);
    kernels::cuda::run(args, *this);
  }

  Work& work() { return works_[next_event_ % works_.size()]; }
  PlanMemory& plan() { return work().plan; }
  Rows rows(std::span<const kernels::RowRange> ranges) override {
    return plan().rows(launch_, ranges);
  }
  const int32_t* segment_of_row(std::span<const kernels::PaddedSegment> segments,
                                uint32_t num_rows) override {
    return plan().segment_of_row(launch_, segments, num_rows);
  }
  const int32_t* index_in_segment(std::span<const kernels::SegmentRows> segments,
                                  uint32_t num_rows) override {
    return plan().index_in_segment(launch_, segments, num_rows);
  }
  const std::byte* put_bytes(std::span<const std::byte> bytes) override {
    return plan().put(launch_, bytes);
  }
  const std::byte* put_bytes_with_capacity(std::span<const std::byte> bytes, size_t most) override {
    return plan().put_with_capacity(launch_, bytes, most);
  }
  const kernels::cuda::Launcher& launcher_for(std::span<const std::byte> what) override {
    stage_copies();
    segments_.key().append(arguments_.bytes());
    segments_.key().append(what);
    return launch_;
  }
  void keep(Status status) {
    if (!status && status_) status_ = std::move(status);
  }
  const std::byte* readable(const std::byte* data, size_t bytes) {
    const std::byte* there = work().reads->readable(data, bytes);
    if (there == nullptr) launch_.keep(cudaErrorMemoryAllocation);
    return there;
  }
  Status take_status() {
    const cudaError_t error = launch_.take_error();
    Status refused = gemms_->take_refused();
    if (error == cudaErrorNotSupported) keep(std::move(refused));
    Status launched = check(error, "the GPU refused a launch");
    Status status = std::exchange(status_, {});
    return status ? std::move(launched) : std::move(status);
  }
  // `args` and `what` are all that an operator's launches depend on.
  template <class Args, class... What>
  const kernels::cuda::Launcher& launch(const Args& args, const What&... what) {
    stage_copies();
    static constexpr char kOperator = 0;
    segments_.key().add(&kOperator);
    segments_.key().add_arguments(args);
    (segments_.key().add_arguments(what), ...);
    return launch_;
  }
  // Submits the plan's copy and then the logged launches to the GPU.
  void flush() {
    work().events = events_of(work());
    launch_.keep(slices_->here().enter());
    launch_.keep(plan().copy(stream()));
    if (!segments_.empty()) launch_.keep(work().record_begin(stream()));
    size_t num_made = 0;
    record_inputs_read(num_made);
    segments_.for_each([&](const GraphSegment& segment) {
      // A failed batch's kernels may lack their input: a fault that a GPU does not recover from.
      if (launch_.error() == cudaSuccess && status_)
        launch_.keep(uses_graphs_ ? graphs_.launch(stream(), segment) : segment.make(stream()));
      record_inputs_read(++num_made);
    });
    forget();
  }
  // Records the event after the segments that end with the gathers.
  void record_inputs_read(size_t num_made) {
    if (!ends_inputs_ || num_made != num_input_segments_) return;
    ends_inputs_ = false;
    launch_.keep(work().record_inputs_read(stream()));
  }
  void forget() {
    segments_.clear();
    gemms_->clear();
  }
  void launch_pending_bias() {
    if (const auto pending = pending_bias_.take())
      kernels::cuda::bias_activation(
          launch(pending->args, pending->rows.count, pending->rows.slots), pending->args,
          pending->rows);
  }
  // Gathers pending results before the next launch can overwrite them. They get a separate graph
  // segment, because otherwise equal batches may ask for different results.
  void stage_copies() {
    launch_pending_bias();
    Results& results = *work().results;
    if (!results.has_unstaged()) return;
    end_graph_segment();
    keep(results.stage(launch_, plan(), segments_.key(), slices_->here(), [this] { flush(); }));
    end_graph_segment();
  }

  const std::unique_ptr<StreamSlices> slices_;
  bool is_between_batches_ = true;
  const kernels::cuda::Processors processors_;  // of the whole device
  GraphSegments segments_;                      // not submitted yet
  LaunchKey arguments_;                         // of the operator that kernels/cuda is launching
  bool uses_graphs_ = true, ends_inputs_ = false;
  size_t num_input_segments_ = 0;
  GraphCache graphs_;
  kernels::cuda::Launcher launch_;
  const int ordinal_;
  const std::vector<unsigned> cpus_;
  const std::shared_ptr<const RegisteredMemory> registered_;
  std::unique_ptr<Gemms> gemms_;
  std::unique_ptr<CudnnAttention> cudnn_;    // null: attention is ours
  PendingBias pending_bias_;                 // of the last logged GEMM
  std::array<Work, kMaxPending + 1> works_;  // the pending events, and the batch being launched
  std::vector<kernels::cuda::IdRun> ids_;
  PixelPlan pixels_;
  Event next_event_ = 0, next_wait_ = 0;
  Status status_;  // the first failure of the batch being launched
};

}  // namespace

Result<std::unique_ptr<Stream>> make_stream(const StreamParts& parts, const StreamLimits& limits,
                                            const StreamOptions& options) {
  return CudaStream::make(parts, limits, options);
}

}  // namespace itif::device::cuda
