#include "device/cuda/cudnn/cudnn_plan.h"

#include <fmt/format.h>

#include <array>
#include <span>
#include <string>

namespace itif::device::cuda {
namespace {

using cudnn::Attribute;
using cudnn::AttributeType;
using cudnn::Descriptor;
using cudnn::DescriptorType;

// Identify the tensors of a variant pack.
enum Id : int64_t {
  kQuery = 1,
  kKey,
  kValue,
  kOutput,
  kQkvOffsets,
  kOutOffsets,
  kQueryLengths,
  kKeyLengths,
  kScale,
};
using Extents = std::array<int64_t, 4>;
constexpr Extents kOneEach = {1, 1, 1, 1};
constexpr int64_t kMaxConfigs = 16;

// The first versions that support segment lengths, and segments without padding between them. GPUs
// before compute capability 9.0 need a later one. Source: cuDNN's release notes and the checks of
// NVIDIA's cudnn-frontend 1.32.
constexpr size_t kMinVersion = 91500, kMinVersionBeforeHopper = 91801;

std::string version_name(size_t version) {
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

cudnn::DataType cudnn_type_of(DType type) {
  switch (type) {
    case DType::kBF16: return cudnn::DataType::kBFloat16;
    case DType::kF16: return cudnn::DataType::kHalf;
    default: return cudnn::DataType::kFloat;
  }
}

}  // namespace

std::string Cudnn::version() const {
  return version_name(get_version());
}

::itif::Status Cudnn::check_version(int major) const {
  const size_t least = major < 9 ? kMinVersionBeforeHopper : kMinVersion;
  if (get_version() >= least) return {};
  return fail(Code::kUnsupported,
              fmt::format("cuDNN {} is too old for this GPU: it needs {} or later", version(),
                          version_name(least)));
}

// Creates descriptors and keeps the first error.
class CudnnPlan::Description {
 public:
  explicit Description(CudnnPlan& plan) : plan_(plan) {}

  Descriptor create(DescriptorType type) {
    Descriptor made = nullptr;
    keep(plan_.cudnn_.create_descriptor(type, &made), "create");
    if (made != nullptr) plan_.descriptors_.push_back(made);
    return made;
  }
  template <class T>
  void set(Descriptor descriptor, Attribute attribute, AttributeType type,
           std::span<const T> values) {
    if (!is_good()) return;
    keep(plan_.cudnn_.set_attribute(descriptor, attribute, type,
                                    static_cast<int64_t>(values.size()), values.data()),
         fmt::format("set attribute {} of", static_cast<int>(attribute)));
  }
  template <class T>
  void set(Descriptor descriptor, Attribute attribute, AttributeType type, const T& value) {
    set(descriptor, attribute, type, std::span<const T>(&value, 1));
  }
  void finalize(Descriptor descriptor) {
    if (is_good()) keep(plan_.cudnn_.finalize(descriptor), "finalize");
  }
  Descriptor tensor(Id id, cudnn::DataType type, const Extents& extents, const Extents& strides,
                    Descriptor offsets = nullptr) {
    const Descriptor made = create(DescriptorType::kTensor);
    set(made, Attribute::kTensorUniqueId, AttributeType::kInt64, int64_t{id});
    set(made, Attribute::kTensorDataType, AttributeType::kDataType, type);
    set(made, Attribute::kTensorDimensions, AttributeType::kInt64,
        std::span<const int64_t>(extents));
    set(made, Attribute::kTensorStrides, AttributeType::kInt64, std::span<const int64_t>(strides));
    set(made, Attribute::kTensorByteAlignment, AttributeType::kInt64,
        id == kScale ? int64_t{sizeof(float)} : int64_t{kAlignmentBytes});
    if (id == kScale) set(made, Attribute::kTensorIsByValue, AttributeType::kBoolean, true);
    if (offsets != nullptr)
      set(made, Attribute::kTensorRaggedOffset, AttributeType::kDescriptor, offsets);
    finalize(made);
    return made;
  }
  void keep(cudnn::Status status, const std::string& what) {
    if (status == cudnn::Status::kSuccess || !is_good()) return;
    std::array<char, 256> message = {};
    plan_.cudnn_.last_error_string(message.data(), message.size() - 1);
    error_ = fmt::format("cuDNN failed to {} a descriptor: {} ({})", what,
                         plan_.cudnn_.error_string(status), message.data());
  }
  void forget_error() { error_.clear(); }
  bool is_good() const { return error_.empty(); }
  const std::string& error() const { return error_; }

 private:
  CudnnPlan& plan_;
  std::string error_;
};

Result<std::unique_ptr<CudnnPlan>> CudnnPlan::make(const Cudnn& cudnn, cudnn::Handle handle,
                                                   const Shape& shape, Descriptor target) {
  std::unique_ptr<CudnnPlan> plan(new CudnnPlan(cudnn));
  const int64_t segments = shape.num_segments, rows = shape.max_rows, heads = shape.num_heads,
                head = shape.head_size, hidden = heads * head;
  plan->head_bytes_ = shape.head_size * dtype_bytes(shape.type);
  plan->hidden_bytes_ = shape.num_heads * plan->head_bytes_;
  Description d(*plan);

  const auto ints = [&](Id id, int64_t count) {
    return d.tensor(id, cudnn::DataType::kInt32, {count, 1, 1, 1}, kOneEach);
  };
  const Descriptor qkv_offsets = ints(kQkvOffsets, segments + 1),
                   out_offsets = ints(kOutOffsets, segments + 1);
  const auto rows_of = [&](Id id, int64_t stride, Descriptor offsets) {
    return d.tensor(id, cudnn_type_of(shape.type), {segments, heads, rows, head},
                    {rows * stride, head, stride, 1}, offsets);
  };
  const std::pair<Attribute, Descriptor> operands[] = {
      {Attribute::kSdpaForwardQuery, rows_of(kQuery, 3 * hidden, qkv_offsets)},
      {Attribute::kSdpaForwardKey, rows_of(kKey, 3 * hidden, qkv_offsets)},
      {Attribute::kSdpaForwardValue, rows_of(kValue, 3 * hidden, qkv_offsets)},
      {Attribute::kSdpaForwardOutput, rows_of(kOutput, hidden, out_offsets)},
      {Attribute::kSdpaForwardScale, d.tensor(kScale, cudnn::DataType::kFloat, kOneEach, kOneEach)},
      {Attribute::kSdpaForwardQueryLengths, ints(kQueryLengths, segments)},
      {Attribute::kSdpaForwardKeyLengths, ints(kKeyLengths, segments)},
  };
  const Descriptor operation = d.create(DescriptorType::kSdpaForward);
  for (const auto& [attribute, tensor] : operands)
    d.set(operation, attribute, AttributeType::kDescriptor, tensor);
  d.finalize(operation);

  const Descriptor graph = d.create(DescriptorType::kOperationGraph);
  d.set(graph, Attribute::kOperationGraphOperations, AttributeType::kDescriptor, operation);
  if (target == nullptr)
    d.set(graph, Attribute::kOperationGraphHandle, AttributeType::kHandle, handle);
  d.finalize(graph);

  const Descriptor heuristics = d.create(DescriptorType::kEngineHeuristics);
  d.set(heuristics, Attribute::kEngineHeuristicsOperationGraph, AttributeType::kDescriptor, graph);
  d.set(heuristics, Attribute::kEngineHeuristicsMode, AttributeType::kHeuristicMode,
        cudnn::HeuristicMode::kA);
  if (target != nullptr)
    d.set(heuristics, Attribute::kEngineHeuristicsDeviceProperties, AttributeType::kDescriptor,
          target);
  d.finalize(heuristics);

  // cuDNN proposes the best first. It may refuse to compile its own proposals.
  std::array<Descriptor, kMaxConfigs> configs = {};
  int64_t count = 0;
  for (Descriptor& config : configs) config = d.create(DescriptorType::kEngineConfig);
  if (d.is_good())
    d.keep(cudnn.get_attribute(heuristics, Attribute::kEngineHeuristicsResults,
                               AttributeType::kDescriptor, kMaxConfigs, &count, configs.data()),
           "get the results of");
  for (const Descriptor& config : std::span(configs).first(static_cast<size_t>(count))) {
    d.forget_error();
    plan->plan_ = d.create(DescriptorType::kExecutionPlan);
    if (target != nullptr)
      d.set(plan->plan_, Attribute::kExecutionPlanDeviceProperties, AttributeType::kDescriptor,
            target);
    else
      d.set(plan->plan_, Attribute::kExecutionPlanHandle, AttributeType::kHandle, handle);
    d.set(plan->plan_, Attribute::kExecutionPlanEngineConfig, AttributeType::kDescriptor, config);
    d.finalize(plan->plan_);
    if (!d.is_good()) continue;
    int64_t bytes = 0, num_values = 0;
    d.keep(cudnn.get_attribute(plan->plan_, Attribute::kExecutionPlanWorkspaceSize,
                               AttributeType::kInt64, 1, &num_values, &bytes),
           "get the workspace of");
    if (!d.is_good()) continue;
    plan->workspace_bytes_ = static_cast<size_t>(bytes);
    return plan;
  }
  return fail(Code::kUnsupported,
              d.is_good() ? "cuDNN proposes no engine for this attention" : d.error());
}

CudnnPlan::~CudnnPlan() {
  if (pack_ != nullptr) (void)cudnn_.destroy_descriptor(pack_);
  // In reverse order: descriptors depend on earlier ones.
  while (!descriptors_.empty()) {
    (void)cudnn_.destroy_descriptor(descriptors_.back());
    descriptors_.pop_back();
  }
}

cudnn::Status CudnnPlan::bind(const Call& call, void* workspace) {
  if (pack_ != nullptr) (void)cudnn_.destroy_descriptor(std::exchange(pack_, nullptr));
  bound_ = call;
  bound_workspace_ = workspace;
  const auto* const qkv = static_cast<const std::byte*>(call.qkv);
  const std::pair<Id, const void*> all[] = {
      {kQuery, qkv},
      {kKey, qkv + hidden_bytes_},
      {kValue, qkv + 2 * hidden_bytes_},
      {kOutput, call.out},
      {kQkvOffsets, call.qkv_offsets},
      {kOutOffsets, call.out_offsets},
      {kQueryLengths, call.lengths},
      {kKeyLengths, call.lengths},
      {kScale, &bound_.scale},  // host memory
  };
  constexpr size_t kCount = std::size(all);
  std::array<int64_t, kCount> ids = {};
  std::array<const void*, kCount> pointers = {};
  for (size_t i = 0; i < kCount; ++i) std::tie(ids[i], pointers[i]) = all[i];
  cudnn::Status status = cudnn_.create_descriptor(DescriptorType::kVariantPack, &pack_);
  const auto set = [&](Attribute attribute, AttributeType type, size_t count, const void* values) {
    if (status == cudnn::Status::kSuccess)
      status = cudnn_.set_attribute(pack_, attribute, type, static_cast<int64_t>(count), values);
  };
  set(Attribute::kVariantPackUniqueIds, AttributeType::kInt64, kCount, ids.data());
  set(Attribute::kVariantPackDataPointers, AttributeType::kVoidPointer, kCount, pointers.data());
  set(Attribute::kVariantPackWorkspace, AttributeType::kVoidPointer, 1, &workspace);
  if (status == cudnn::Status::kSuccess) status = cudnn_.finalize(pack_);
  if (status != cudnn::Status::kSuccess && pack_ != nullptr)
    (void)cudnn_.destroy_descriptor(std::exchange(pack_, nullptr));
  return status;
}

cudnn::Status CudnnPlan::run(cudnn::Handle handle, const Call& call, void* workspace) {
  if (pack_ == nullptr || call != bound_ || workspace != bound_workspace_)
    if (const cudnn::Status status = bind(call, workspace); status != cudnn::Status::kSuccess)
      return status;
  return cudnn_.execute(handle, plan_, pack_);
}

}  // namespace itif::device::cuda
