#include "device/cuda/stream.h"

#include <array>
#include <cstring>
#include <numeric>
#include <vector>

#include "base/check.h"
#include "device/cuda/error.h"
#include "device/cuda/gemm.h"
#include "device/cuda/plan_memory.h"
#include "device/host/cpu.h"
#include "kernels/cuda/operators.h"

namespace itif::device::cuda {
namespace {

using kernels::cuda::Rows;
using Use = PlanMemory::Use;

// A plan's data by row and by segment, of all operators of a batch, with room for what a decoder's steps show.
constexpr size_t kPlanBytesOfRow = 64;
constexpr size_t kPlanBytesOfSegment = 1024;
constexpr size_t kLeastPlanBytes = 1 << 20;

class CudaStream final : public Stream {
 public:
  static Result<std::unique_ptr<Stream>> make(const StreamParts& parts, const StreamLimits& limits,
                                              const StreamOptions& options) {
    cudaStream_t stream = nullptr;
    ITIF_TRY(
        check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cannot make a stream"));
    std::unique_ptr<CudaStream> made(new CudaStream(parts, stream, options));
    ITIF_ASSIGN(made->gemms_, Gemms::make(parts.compute, stream, parts.budget,
                                          std::max(limits.max_segments, uint32_t{1})));
    const size_t plan_bytes = kLeastPlanBytes + kPlanBytesOfRow * limits.max_tokens +
                              kPlanBytesOfSegment * limits.max_segments;
    for (Work& work : made->works_) {
      ITIF_ASSIGN(work.plan, PlanMemory::make(parts.budget, plan_bytes));
      // Blocking: whoever waits sleeps, and leaves its CPU to others.
      ITIF_TRY(check(cudaEventCreateWithFlags(&work.end, cudaEventBlockingSync),
                     "cannot make an event"));
      work.copies.reserve(64);
    }
    return made;
  }
  ~CudaStream() override {
    (void)cudaStreamSynchronize(launch_.stream());
    for (Work& work : works_)
      if (work.end != nullptr) (void)cudaEventDestroy(work.end);
    gemms_.reset();
    (void)cudaStreamDestroy(launch_.stream());
  }

  void attach_thread() override {
    use_cpus(cpus_);
    launch_.keep(cudaSetDevice(0));
  }

  void gather_ids(const kernels::GatherIds& args) override {
    const auto* pieces = put(args.pieces);
    kernels::cuda::gather_ids(launch_, args, pieces, count(args.pieces));
  }
  void embed_layer_norm(const kernels::EmbedLayerNorm& args) override {
    kernels::cuda::embed_layer_norm(launch_, args, rows(args.ranges), put(args.positions),
                                    put(args.token_types));
  }
  void gather_patches(const kernels::GatherPatches& args) override {
    pixel_images_.clear();
    pixel_pieces_.clear();
    scales_.clear();
    for (const kernels::ImagePixels& image : args.images) add_image(image, args.channels);
    const auto* images = put(std::span<const kernels::cuda::PixelImage>(pixel_images_));
    const auto* pieces = put(std::span<const kernels::cuda::PixelPiece>(pixel_pieces_));
    const float* scales = put(std::span<const float>(scales_));
    if (images == nullptr || pieces == nullptr) return;
    kernels::cuda::gather_patches(launch_, args, images, count(args.images), pieces, scales);
  }
  void embed_patches(const kernels::EmbedPatches& args) override {
    const Rows all = rows(args.ranges);
    const auto* index = plan().made_of<int32_t>(
        launch_, Use::kIndexInSegment, args.segments, all.count, [&](int32_t* of_row) {
          std::fill_n(of_row, all.count, -1);
          for (const kernels::SegmentRows& segment : args.segments)
            std::iota(of_row + segment.first_row, of_row + segment.first_row + segment.num_rows, 0);
        });
    if (index != nullptr) kernels::cuda::embed_patches(launch_, args, all, index);
  }
  void gemm(const kernels::GroupedGemm& args) override { gemms({&args, 1}); }
  void gemms(std::span<const kernels::GroupedGemm> all) override {
    for (const kernels::GroupedGemm& args : all) {
      keep(gemms_->run(launch_, plan(), args));
      if (args.bias.base == nullptr && args.activation == kernels::Activation::kNone) continue;
      const kernels::BiasActivation behind = {.x = args.out,
                                              .bias = args.bias,
                                              .width = args.n,
                                              .activation = args.activation,
                                              .ranges = args.ranges};
      if (args.f32_out)
        kernels::cuda::bias_activation(f32_launch(), behind, rows(args.ranges));
      else
        bias_activation(behind);
    }
  }
  void attention(const kernels::Attention& args) override {
    const uint32_t queries =
        kernels::cuda::attention_tile_queries(launch_.activation(), args.head_size);
    uint32_t num_tiles = 0;
    for (const kernels::SegmentRows& segment : args.segments)
      num_tiles += kernels::cuda::div_up(segment.num_rows, queries);
    const auto* tiles = plan().made_of<kernels::cuda::AttentionTile>(
        launch_, Use::kTiles, args.segments, num_tiles, [&](kernels::cuda::AttentionTile* tile) {
          for (const kernels::SegmentRows& segment : args.segments)
            for (uint32_t query = 0; query < segment.num_rows; query += queries)
              *tile++ = {segment.first_row, segment.num_rows, query};
        });
    if (tiles != nullptr) kernels::cuda::attention(launch_, args, tiles, num_tiles);
  }
  void residual_layer_norm(const kernels::ResidualLayerNorm& args) override {
    kernels::cuda::residual_layer_norm(launch_, args, rows(args.ranges));
  }
  void pool_segments(const kernels::PoolSegments& args) override {
    kernels::cuda::pool_segments(launch_, args, put(args.segments), put(args.chosen),
                                 count(args.chosen));
  }
  void to_f32(const kernels::ToF32& args) override { kernels::cuda::to_f32(launch_, args); }
  void small_linear(const kernels::SmallLinear& args) override {
    kernels::cuda::small_linear(launch_, args);
  }
  void embed_positions(const kernels::EmbedPositions& args) override {
    kernels::cuda::embed_positions(launch_, args, rows(args.ranges), put(args.positions));
  }
  void append_kv(const kernels::AppendKv& args) override {
    kernels::cuda::append_kv(launch_, args, put(args.places), count(args.places));
  }
  void copy_kv(const kernels::CopyKv& args) override {
    kernels::cuda::copy_kv(launch_, args, put(args.copies), count(args.copies));
  }
  void cached_attention(const kernels::CachedAttention& args) override {
    CHECK(args.pool.block_tokens <= kernels::kMaxKvBlockTokens);
    kernels::cuda::cached_attention(launch_, args, put(args.tables), put(args.blocks),
                                    count(args.tables));
  }
  void top_tokens(const kernels::TopTokens& args) override {
    CHECK(args.count > 0 && args.count <= kernels::kMaxTopTokens);
    kernels::cuda::top_tokens(launch_, args, put(args.banned_of), put(args.banned));
  }
  void bias_activation(const kernels::BiasActivation& args) override {
    kernels::cuda::bias_activation(launch_, args, rows(args.ranges));
  }
  void split_heads(const kernels::SplitHeads& args) override {
    const Rows all = rows(args.ranges);
    const auto* segments = put(args.segments);
    const int32_t* of_row = segment_of_row(args.segments, all.count);
    if (of_row == nullptr) return;
    for (const kernels::HeadPart& part : args.parts)
      kernels::cuda::split_heads(launch_, part, args, all, segments, of_row);
  }
  void merge_heads(const kernels::MergeHeads& args) override {
    if (args.segments.empty()) return;
    const uint32_t num_rows = args.segments.back().first_row + args.segments.back().num_rows;
    const auto* segments = put(args.segments);
    const int32_t* of_row = segment_of_row(args.segments, num_rows);
    if (of_row != nullptr) kernels::cuda::merge_heads(launch_, args, segments, of_row, num_rows);
  }
  void batched_gemm(const kernels::BatchedGemm& args) override { keep(gemms_->run(args)); }
  void softmax(const kernels::Softmax& args) override {
    uint32_t longest = 0;
    for (const kernels::PaddedSegment& segment : args.segments)
      longest = std::max(longest, segment.num_rows);
    kernels::cuda::softmax(launch_, args, put(args.segments), count(args.segments), longest);
  }

  // By way of pinned memory: the target is anybody's.
  void copy_to_host(const void* source, size_t bytes, void* target) override {
    if (bytes == 0) return;
    Work& now = work();
    const size_t at = now.result_bytes;
    now.result_bytes += (bytes + 255) / 256 * 256;
    if (now.result_bytes > now.results.bytes()) {
      Status grown = grow_results(now);
      if (!grown) return keep(std::move(grown));
    }
    launch_.keep(cudaMemcpyAsync(now.results.data() + at, source, bytes, cudaMemcpyDeviceToHost,
                                 launch_.stream()));
    now.copies.push_back({at, bytes, target});
  }

  Event record() override {
    CHECK(next_event_ - next_wait_ < kMaxPending);
    launch_.keep(cudaEventRecord(work().end, launch_.stream()));
    work().status = take_status();
    return next_event_++;
  }
  bool is_done(Event event) const noexcept override {
    return cudaEventQuery(works_[event % works_.size()].end) != cudaErrorNotReady;
  }
  Completion wait(Event event) override {
    CHECK(event == next_wait_ && event < next_event_);
    Work& done = works_[event % works_.size()];
    ++next_wait_;
    Completion completion{.status = std::move(done.status)};
    Status came = check(cudaEventSynchronize(done.end), "the GPU failed a batch");
    if (completion.status && came) came = check(cudaGetLastError(), "the GPU failed a batch");
    if (completion.status && !came) completion.status = std::move(came);
    if (completion.status)
      for (const Copy& copy : done.copies)
        std::memcpy(copy.target, done.results.data() + copy.at, copy.bytes);
    done.copies.clear();
    done.result_bytes = 0;
    done.plan.clear();
    return completion;
  }
  Status synchronize() override {
    CHECK(next_event_ == next_wait_);
    return wait(record()).status;
  }

 private:
  struct Copy {
    size_t at = 0, bytes = 0;
    void* target = nullptr;
  };
  // What stands between two events.
  struct Work {
    PlanMemory plan;
    Pinned results;
    size_t result_bytes = 0;
    std::vector<Copy> copies;
    cudaEvent_t end = nullptr;
    Status status;
  };

  CudaStream(const StreamParts& parts, cudaStream_t stream, const StreamOptions& options)
      : launch_(stream, parts.compute, parts.num_multiprocessors),
        cpus_(options.cpus.begin(), options.cpus.end()) {}

  Work& work() { return works_[next_event_ % works_.size()]; }
  PlanMemory& plan() { return work().plan; }
  Rows rows(std::span<const kernels::RowRange> ranges) { return plan().rows(launch_, ranges); }
  template <class T>
  const T* put(std::span<const T> values) {
    return plan().put(launch_, values);
  }
  template <class T>
  static uint32_t count(std::span<const T> values) {
    return static_cast<uint32_t>(values.size());
  }
  // The same stream, for values that are f32 whatever the activations are.
  kernels::cuda::Launcher f32_launch() const {
    return {launch_.stream(), DType::kF32, launch_.num_multiprocessors()};
  }
  void keep(Status status) {
    if (!status && status_) status_ = std::move(status);
  }
  // -1: of none.
  const int32_t* segment_of_row(std::span<const kernels::PaddedSegment> segments,
                                uint32_t num_rows) {
    return plan().made_of<int32_t>(launch_, Use::kSegmentOfRow, segments, num_rows,
                                   [&](int32_t* of_row) {
                                     std::fill_n(of_row, num_rows, -1);
                                     for (size_t i = 0; i < segments.size(); ++i)
                                       std::fill_n(of_row + segments[i].first_row,
                                                   segments[i].num_rows, static_cast<int32_t>(i));
                                   });
  }
  void add_image(const kernels::ImagePixels& image, uint32_t channels) {
    kernels::cuda::PixelImage made{.first_piece = static_cast<uint32_t>(pixel_pieces_.size()),
                                   .num_pieces = count(image.pieces),
                                   .skip_bytes = image.skip_bytes,
                                   .value_bytes = image.value_bytes,
                                   .first_row = image.first_row,
                                   .first_scale = ~0u};
    uint32_t begin = 0;
    for (const BytePiece& piece : image.pieces) {
      pixel_pieces_.push_back({piece.data, begin, piece.bytes});
      begin += piece.bytes;
    }
    if (image.scale != nullptr) {
      made.first_scale = static_cast<uint32_t>(scales_.size());
      scales_.insert(scales_.end(), image.scale, image.scale + channels);
      scales_.insert(scales_.end(), image.shift, image.shift + channels);
    }
    pixel_images_.push_back(made);
  }
  Status take_status() {
    Status launched = check(launch_.take_error(), "the GPU refused a launch");
    Status status = std::exchange(status_, {});
    return status ? std::move(launched) : std::move(status);
  }
  // The first batches find out how much it is: what was copied is moved, when it has come.
  Status grow_results(Work& now) {
    ITIF_TRY(check(cudaStreamSynchronize(launch_.stream()), "the GPU failed a batch"));
    ITIF_ASSIGN(Pinned larger, Pinned::allocate(2 * now.result_bytes));
    if (now.results.data() != nullptr)
      std::memcpy(larger.data(), now.results.data(), now.results.bytes());
    now.results = std::move(larger);
    return {};
  }

  const kernels::cuda::Launcher launch_;
  const std::vector<unsigned> cpus_;
  std::unique_ptr<Gemms> gemms_;
  std::array<Work, kMaxPending + 1> works_;  // those pending, and the one that is being made
  std::vector<kernels::cuda::PixelImage> pixel_images_;
  std::vector<kernels::cuda::PixelPiece> pixel_pieces_;
  std::vector<float> scales_;
  Event next_event_ = 0, next_wait_ = 0;
  Status status_;  // the first failure of what is being made
};

}  // namespace

Result<std::unique_ptr<Stream>> make_stream(const StreamParts& parts, const StreamLimits& limits,
                                            const StreamOptions& options) {
  return CudaStream::make(parts, limits, options);
}

}  // namespace itif::device::cuda
