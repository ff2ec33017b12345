#include "device/cuda/cudnn/cudnn_attention.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <mutex>

#include "base/log.h"
#include "device/cuda/driver/captures.h"

namespace itif::device::cuda {
namespace {

// Smaller plans would gain nothing: absent segments end early, and a block of queries has as many
// rows.
constexpr uint32_t kMinSegments = 16, kMinRows = 64;
// Alignment of arrays on the device, in elements.
constexpr uint32_t kArrayInts = CudnnPlan::kAlignmentBytes / sizeof(int32_t);

uint32_t array_ints(uint32_t count) {
  return (count + kArrayInts - 1) / kArrayInts * kArrayInts;
}

}  // namespace

Result<std::unique_ptr<CudnnAttention>> CudnnAttention::make(const Cudnn& cudnn, DType activation,
                                                             bool is_only, cudaStream_t stream,
                                                             std::shared_ptr<Budget> budget) {
  std::unique_ptr<CudnnAttention> made(
      new CudnnAttention(cudnn, activation, is_only, std::move(budget)));
  const std::unique_lock alone(captures());
  cudnn::Status status = cudnn.create(&made->handle_);
  if (status == cudnn::Status::kSuccess) status = cudnn.set_stream(made->handle_, stream);
  if (status != cudnn::Status::kSuccess)
    return fail(Code::kUnsupported,
                fmt::format("cuDNN cannot be started: {}", cudnn.error_string(status)));
  return made;
}

Status CudnnAttention::use_stream(cudaStream_t stream) {
  const cudnn::Status status = cudnn_.set_stream(handle_, stream);
  if (status == cudnn::Status::kSuccess) return {};
  return fail(Code::kInternal,
              fmt::format("cuDNN cannot use a stream: {}", cudnn_.error_string(status)));
}

CudnnAttention::~CudnnAttention() {
  entries_.clear();
  const std::unique_lock alone(captures());
  if (handle_ != nullptr) (void)cudnn_.destroy(handle_);
}

CudnnAttention::Entry* CudnnAttention::plan_for(const kernels::Attention& args) {
  if (!args.is_plain()) return nullptr;
  // The lengths of a bucket's segments are not known when it is captured. Each segment may have all
  // rows of the bucket: GraphBuckets::find() bounds only their sum, and one request may fill every
  // range of its tenant. A plan for shorter segments would compute wrong results for such a batch.
  uint32_t longest = args.max_bucket_rows;
  if (longest == 0)
    for (const kernels::SegmentRows& segment : args.segments)
      longest = std::max(longest, segment.num_rows);
  if (longest == 0 || args.segments.empty()) return nullptr;
  const CudnnPlan::Shape shape = {
      .type = activation_,
      .num_segments =
          std::max(kMinSegments, std::bit_ceil(static_cast<uint32_t>(args.segments.size()))),
      .max_rows = std::max(kMinRows, std::bit_ceil(longest)),
      .num_heads = args.num_heads,
      .head_size = args.head_size};
  const kernels::SegmentRows& last = args.segments.back();
  const size_t last_value =
      size_t{last.first_row + last.num_rows} * 3 * args.num_heads * args.head_size;
  if (last_value > INT32_MAX) return nullptr;
  const auto found = std::ranges::find(entries_, shape, &Entry::shape);
  Entry& entry = found == entries_.end() ? add(shape) : *found;
  return entry.plan == nullptr ? nullptr : &entry;
}

CudnnAttention::Entry& CudnnAttention::add(const CudnnPlan::Shape& shape) {
  const bool is_known = std::ranges::any_of(entries_, [&](const Entry& entry) {
    return entry.plan == nullptr && entry.shape.num_heads == shape.num_heads &&
           entry.shape.head_size == shape.head_size;
  });
  Entry& entry = entries_.emplace_back(shape);
  const auto refuse = [&](const std::string& why) -> Entry& {
    entry.plan.reset();
    if (!is_known)
      log::warning("attention with {} heads of size {} uses itif's kernels: {}", shape.num_heads,
                   shape.head_size, why);
    return entry;
  };
  if (shape.head_size * dtype_bytes(shape.type) % CudnnPlan::kAlignmentBytes != 0)
    return refuse("the head size must be a multiple of 8");
  auto plan = CudnnPlan::make(cudnn_, handle_, shape);
  if (!plan) return refuse(plan.error().message);
  entry.plan = std::move(*plan);
  if (entry.plan->workspace_bytes() > 0) {
    auto workspace = allocate_buffer(budget_, entry.plan->workspace_bytes());
    if (!workspace) return refuse(workspace.error().message);
    entry.workspace = std::move(*workspace);
  }
  return entry;
}

void CudnnAttention::run(const kernels::cuda::Launcher& launch, PlanMemory& memory, LaunchKey& key,
                         const kernels::Attention& args) {
  Entry* const entry = plan_for(args);
  if (entry == nullptr) return launch.keep(cudaErrorNotSupported);
  const uint32_t count = entry->shape.num_segments, width = args.num_heads * args.head_size;
  const uint32_t qkv_at = array_ints(count), out_at = qkv_at + array_ints(count + 1);
  const auto* const ints = memory.made_of<int32_t>(
      launch, PlanMemory::Use::kRaggedRows, args.segments, out_at + array_ints(count + 1),
      [&](int32_t* at) {
        const auto used = static_cast<uint32_t>(args.segments.size());
        const uint32_t end = args.segments.back().first_row + args.segments.back().num_rows;
        for (uint32_t i = 0; i <= count; ++i) {
          const uint32_t first_row = i < used ? args.segments[i].first_row : end;
          if (i < count) at[i] = i < used ? static_cast<int32_t>(args.segments[i].num_rows) : 0;
          at[qkv_at + i] = static_cast<int32_t>(first_row * 3 * width);
          at[out_at + i] = static_cast<int32_t>(first_row * width);
        }
      },
      {}, width);
  if (ints == nullptr) return;
  const Launch made = {.attention = this,
                       .entry = entry,
                       .call = {.qkv = args.qkv,
                                .out = args.out,
                                .lengths = ints,
                                .qkv_offsets = ints + qkv_at,
                                .out_offsets = ints + out_at,
                                .scale = args.scale}};
  key.add(made);
  launch.log().add<Launch>(&make_launch, made, &load_launch);
}

cudaError_t CudnnAttention::make_launch(const Launch& made, cudaStream_t) {
  Entry& entry = *made.entry;
  void* const workspace = entry.workspace == nullptr ? nullptr : entry.workspace->data();
  const cudnn::Status status = entry.plan->run(made.attention->handle_, made.call, workspace);
  return status == cudnn::Status::kSuccess ? cudaSuccess : cudaErrorLaunchFailure;
}

// Runs the plan once over segments without rows, which read and write nothing.
cudaError_t CudnnAttention::load_launch(const Launch& made, cudaStream_t stream) {
  Entry& entry = *made.entry;
  if (entry.is_loaded) return cudaSuccess;
  const uint32_t ints = array_ints(entry.shape.num_segments + 1);
  auto zeros = allocate_buffer(made.attention->budget_, ints * sizeof(int32_t));
  if (!zeros) return cudaErrorMemoryAllocation;
  Launch empty = made;
  empty.call.lengths = empty.call.qkv_offsets = empty.call.out_offsets =
      reinterpret_cast<const int32_t*>((*zeros)->data());
  cudaError_t error = make_launch(empty, stream);
  if (error == cudaSuccess) error = cudaStreamSynchronize(stream);
  entry.is_loaded = error == cudaSuccess;
  return error;
}

}  // namespace itif::device::cuda
