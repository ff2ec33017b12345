#include "device/host/host_stream.h"

#include <cstring>
#include <vector>

#include "base/check.h"
#include "device/host/memory.h"
#include "device/host/pool_wait.h"
#include "device/stream/async_stream.h"
#include "device/threads.h"
#include "kernels/host/operators.h"

namespace itif::device {
namespace {

class HostStream final : public ImmediateStream {
 public:
  HostStream(const kernels::host::HostLaunch& launch, const StreamLimits& limits,
             std::span<const unsigned> cpus, std::unique_ptr<GemmLibrary::Runner> gemms,
             LazyMapping scratch, PoolThrottle* throttle)
      : launch_(launch),
        limits_(limits),
        cpus_(cpus.begin(), cpus.end()),
        gemms_(std::move(gemms)),
        scratch_(std::move(scratch)),
        throttle_(throttle) {}
  ~HostStream() override { sleep_early(false); }

  void attach_thread() override { use_cpus(cpus_); }
  void sleep_early(bool early) noexcept override {
    if (throttle_ == nullptr || std::exchange(sleeps_early_, early) == early) return;
    early ? throttle_->hold() : throttle_->release();
  }

  void dispatch(kernels::Operator op) override {
    std::visit([this](const auto* args) { run(*args); }, op);
  }
  void run(const kernels::GatherIds& args) { kernels::host::gather_ids(args); }

  void run(const kernels::EmbedLayerNorm& args) { kernels::host::embed_layer_norm(args, launch_); }

  void run(const kernels::GatherPatches& args) { kernels::host::gather_patches(args, launch_); }

  void run(const kernels::EmbedPatches& args) { kernels::host::embed_patches(args, launch_); }

  void run(const kernels::GroupedGemms& args) {
    if (Status status = gemms_->run(args.all); !status && status_) status_ = std::move(status);
    for (const kernels::GroupedGemm& gemm : args.all)
      if (gemm.activation != kernels::Activation::kNone)
        kernels::host::bias_activation({.x = gemm.out,
                                        .bias = {},
                                        .width = gemm.n,
                                        .activation = gemm.activation,
                                        .ranges = gemm.ranges},
                                       launch_);
  }

  void run(const kernels::Attention& args) {
    CHECK(args.segments.size() <= limits_.max_segments);
    for (const kernels::SegmentRows& segment : args.segments)
      CHECK(segment.num_rows <= limits_.max_tokens);
    kernels::host::attention(args, launch_, scratch());
  }

  void run(const kernels::ResidualLayerNorm& args) {
    kernels::host::residual_layer_norm(args, launch_);
  }

  void run(const kernels::PoolSegments& args) { kernels::host::pool_segments(args, launch_); }

  void run(const kernels::ToF32& args) { kernels::host::to_f32(args, launch_); }

  void run(const kernels::SmallLinears& args) {
    for (const kernels::SmallLinear& one : args.all) kernels::host::small_linear(one, launch_);
  }

  void run(const kernels::EmbedPositions& args) { kernels::host::embed_positions(args, launch_); }

  void run(const kernels::AppendKv& args) { kernels::host::append_kv(args, launch_); }

  void run(const kernels::CopyKv& args) { kernels::host::copy_kv(args, launch_); }

  void run(const kernels::CachedAttention& args) {
    CHECK(args.pool.block_tokens <= kernels::kMaxKvBlockTokens);
    kernels::host::cached_attention(args, launch_);
  }

  void run(const kernels::TopTokens& args) {
    CHECK(args.count > 0 && args.count <= kernels::kMaxTopTokens);
    kernels::host::top_tokens(args, launch_);
  }

  void run(const kernels::BiasActivation& args) { kernels::host::bias_activation(args, launch_); }

  void run(const kernels::SplitHeads& args) { kernels::host::split_heads(args, launch_); }

  void run(const kernels::MergeHeads& args) { kernels::host::merge_heads(args, launch_); }

  void run(const kernels::BatchedGemm& args) {
    kernels::host::batched_gemm(args, launch_, scratch());
  }

  void run(const kernels::Softmax& args) { kernels::host::softmax(args, launch_); }

  void copy_to_host(const void* source, size_t bytes, void* target) override {
    if (bytes != 0) std::memcpy(target, source, bytes);
  }

  Status synchronize() override { return std::exchange(status_, {}); }

 private:
  kernels::host::AttentionScratch scratch() const {
    return {.base = scratch_.data(), .bytes_per_thread = scratch_.bytes() / launch_.num_threads};
  }

  const kernels::host::HostLaunch launch_;
  const StreamLimits limits_;
  const std::vector<unsigned> cpus_;
  std::unique_ptr<GemmLibrary::Runner> gemms_;
  LazyMapping scratch_;           // for attention and batched GEMMs
  PoolThrottle* const throttle_;  // null: the pool always spins
  bool sleeps_early_ = false;     // holds throttle_
  Status status_;                 // the first failure since synchronize()
};

}  // namespace

Result<std::unique_ptr<Stream>> make_host_stream(GemmLibrary& gemms,
                                                 const kernels::host::HostLaunch& launch,
                                                 PoolThrottle& throttle, const StreamLimits& limits,
                                                 const StreamOptions& options) {
  ITIF_ASSIGN(auto runner, gemms.make_runner());
  ITIF_ASSIGN(auto scratch,
              LazyMapping::reserve(kernels::host::attention_scratch_bytes(limits.max_tokens) *
                                   launch.num_threads));
  const bool throttles = options.shares_cpus && launch.num_threads > 1 && chooses_pool_spinning();
  if (throttles) ITIF_TRY(throttle.start());
  auto stream = std::make_unique<HostStream>(launch, limits, options.share.cpus, std::move(runner),
                                             std::move(scratch), throttles ? &throttle : nullptr);
  if (!options.is_async) return stream;
  return AsyncStream::make(std::move(stream), options);
}

}  // namespace itif::device
