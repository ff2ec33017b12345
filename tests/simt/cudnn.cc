#include "cudnn.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <numeric>
#include <span>

#include "cudnn_descriptors.h"
#include "machine.h"
#include "product.h"

namespace itif::device::cuda::cudnn {

struct Context {
  cudaStream_t stream = nullptr;
};

}  // namespace itif::device::cuda::cudnn

namespace simt {
namespace {

constexpr int64_t kWorkspaceBytesOfSegment = 256;

// One call, with the addresses that it reads when it runs.
struct Run {
  Operation op;
  std::map<int64_t, void*> pointers;
  float scale = 1;
  std::byte* workspace = nullptr;

  cudaDataType type() const { return op.q->type == DataType::kHalf ? CUDA_R_16F : CUDA_R_16BF; }
  int32_t length(const Tensor& lengths, int64_t segment) const {
    return static_cast<const int32_t*>(pointers.at(lengths.id))[segment];
  }
  // Returns the index of the first value of a head's row.
  size_t at(const Tensor& tensor, int64_t segment, int64_t head, int64_t row) const {
    const auto* const offsets = static_cast<const int32_t*>(pointers.at(tensor.offsets));
    return static_cast<size_t>(offsets[segment] + head * tensor.strides[1] +
                               row * tensor.strides[2]);
  }
  // Returns [num_rows][head size].
  std::vector<float> rows(const Tensor& tensor, int64_t segment, int64_t head,
                          int64_t num_rows) const {
    const auto width = static_cast<size_t>(tensor.extents[3]);
    std::vector<float> values;
    for (int64_t row = 0; row < num_rows; ++row)
      for (size_t i = 0, first = at(tensor, segment, head, row); i < width; ++i)
        values.push_back(load(pointers.at(tensor.id), type(), first + i));
    return values;
  }
  void put(int64_t segment, int64_t head, int64_t row, std::span<const float> values) const {
    const size_t first = at(*op.o, segment, head, row);
    for (size_t i = 0; i < values.size(); ++i)
      store(pointers.at(op.o->id), type(), first + i, values[i]);
  }

  void attend(int64_t segment, int64_t head, int64_t num_queries, int64_t num_keys) const {
    const auto width = static_cast<size_t>(op.q->extents[3]);
    const auto q = rows(*op.q, segment, head, num_queries),
               k = rows(*op.k, segment, head, num_keys), v = rows(*op.v, segment, head, num_keys);
    std::vector<float> scores(static_cast<size_t>(num_keys));
    for (int64_t query = 0; query < num_queries; ++query) {
      const float* const of_query = q.data() + static_cast<size_t>(query) * width;
      float most = -std::numeric_limits<float>::infinity(), total = 0;
      for (size_t key = 0; key < scores.size(); ++key) {
        scores[key] =
            scale * std::inner_product(of_query, of_query + width, k.data() + key * width, 0.0f);
        most = std::fmax(most, scores[key]);
      }
      std::vector<float> sum(width);
      for (size_t key = 0; key < scores.size(); ++key) {
        const float weight = std::exp(scores[key] - most);
        total += weight;
        const float narrow = rounded(weight, type());  // the type that tensor cores take
        for (size_t i = 0; i < width; ++i) sum[i] += narrow * v[key * width + i];
      }
      for (float& value : sum) value /= total;
      put(segment, head, query, sum);
    }
  }

  void operator()() const {
    const int64_t heads = op.q->extents[1], max_rows = op.q->extents[2];
    const std::vector<float> poison(static_cast<size_t>(op.q->extents[3]), std::nanf(""));
    std::memset(workspace, 0xFF, static_cast<size_t>(kWorkspaceBytesOfSegment * op.segments()));
    for (int64_t segment = 0; segment < op.segments(); ++segment) {
      const int64_t queries = std::min<int64_t>(max_rows, length(*op.lengths_q, segment)),
                    keys = std::min<int64_t>(max_rows, length(*op.lengths_k, segment));
      const auto padded =
          static_cast<int64_t>(at(*op.o, segment + 1, 0, 0) - at(*op.o, segment, 0, 0)) /
          op.o->strides[2];
      for (int64_t head = 0; head < heads; ++head) {
        attend(segment, head, queries, keys);
        for (int64_t row = queries; row < padded; ++row) put(segment, head, row, poison);
      }
    }
  }
};

Status execute(Handle handle, Descriptor plan_descriptor, Descriptor pack_descriptor) {
  std::unique_lock lock(runtime().mutex);
  const Node *const plan = descriptors().find(plan_descriptor), *const pack = descriptors().find(
                                                                    pack_descriptor);
  if (handle == nullptr || plan == nullptr || pack == nullptr ||
      plan->type != DescriptorType::kExecutionPlan || pack->type != DescriptorType::kVariantPack ||
      !plan->is_final || !pack->is_final)
    return Status::kBadParam;
  const Node* const graph = plan->node(Attribute::kExecutionPlanEngineConfig)
                                ->node(Attribute::kEngineHeuristicsOperationGraph);
  Run run;
  run.op = operation_of(graph->node(Attribute::kOperationGraphOperations));
  const auto ids = pack->all<int64_t>(Attribute::kVariantPackUniqueIds);
  const auto pointers = pack->all<void*>(Attribute::kVariantPackDataPointers);
  for (size_t i = 0; i < ids.size(); ++i)
    if (!run.pointers.emplace(ids[i], pointers[i]).second) return Status::kBadParam;
  for (const Tensor& tensor : run.op.all) {
    const auto found = run.pointers.find(tensor.id);
    if (found == run.pointers.end() ||
        reinterpret_cast<uintptr_t>(found->second) % static_cast<uintptr_t>(tensor.alignment) != 0)
      return Status::kBadParam;
    if (runtime().is_device(found->second, 1) == tensor.is_by_value) return Status::kBadParam;
  }
  run.scale = *static_cast<const float*>(run.pointers.at(run.op.scale->id));
  run.workspace = pack->one<std::byte*>(Attribute::kVariantPackWorkspace);
  if (!runtime().is_device(run.workspace,
                           static_cast<size_t>(kWorkspaceBytesOfSegment * run.op.segments())))
    return Status::kBadParam;
  ++runtime().counts.cudnn_calls;
  lock.unlock();
  const cudaError_t error = enqueue_work(
      handle->stream, {kCudnn, reinterpret_cast<intptr_t>(plan_descriptor)}, std::move(run));
  return error == cudaSuccess ? Status::kSuccess : Status::kExecutionFailed;
}

Status set_attribute(Descriptor descriptor, Attribute attribute, AttributeType type, int64_t count,
                     const void* values) {
  const Lock lock(runtime().mutex);
  Node* const node = descriptors().find(descriptor);
  if (node == nullptr || values == nullptr) return Status::kBadParam;
  if (node->is_final) return Status::kNotInitialized;
  const Rules& rules = *rules_of(node->type);
  const auto rule = std::ranges::find(rules, attribute, &Rule::attribute);
  if (rule == rules.end()) return Status::kNotSupported;
  if (type != rule->type || count < rule->least || count > rule->most) return Status::kBadParam;
  const auto* const bytes = static_cast<const std::byte*>(values);
  std::vector<std::byte> kept(bytes, bytes + static_cast<size_t>(count) * bytes_of_value(type));
  if (type == AttributeType::kDescriptor)
    for (const Descriptor used :
         std::span(static_cast<const Descriptor*>(values), static_cast<size_t>(count))) {
      Node* const there = descriptors().find(used);
      if (there == nullptr || !there->is_final) return Status::kBadParam;
      use(*node, *there);
    }
  node->attributes[attribute] = std::move(kept);
  return Status::kSuccess;
}

Status get_attribute(Descriptor descriptor, Attribute attribute, AttributeType type, int64_t most,
                     int64_t* count, void* values) {
  const Lock lock(runtime().mutex);
  Node* const node = descriptors().find(descriptor);
  if (node == nullptr || !node->is_final) return Status::kBadParam;
  if (node->type == DescriptorType::kExecutionPlan &&
      attribute == Attribute::kExecutionPlanWorkspaceSize && type == AttributeType::kInt64 &&
      most == 1) {
    const Node* const graph = node->node(Attribute::kExecutionPlanEngineConfig)
                                  ->node(Attribute::kEngineHeuristicsOperationGraph);
    const auto op = operation_of(graph->node(Attribute::kOperationGraphOperations));
    *static_cast<int64_t*>(values) = kWorkspaceBytesOfSegment * op.segments();
    *count = 1;
    return Status::kSuccess;
  }
  if (node->type != DescriptorType::kEngineHeuristics ||
      attribute != Attribute::kEngineHeuristicsResults || type != AttributeType::kDescriptor)
    return Status::kNotSupported;
  const Node* const graph = node->node(Attribute::kEngineHeuristicsOperationGraph);
  *count = 0;
  if (!has_plan(operation_of(graph->node(Attribute::kOperationGraphOperations))))
    return Status::kSuccess;
  for (; *count < std::min<int64_t>(most, 2); ++*count) {
    Node* const config = descriptors().find(static_cast<Descriptor*>(values)[*count]);
    if (config == nullptr || config->type != DescriptorType::kEngineConfig)
      return Status::kBadParam;
    config->is_final = true;
    config->compiles = *count == 1;
    config->attributes[Attribute::kEngineHeuristicsOperationGraph] =
        node->attributes.at(Attribute::kEngineHeuristicsOperationGraph);
    use(*config, *node);
  }
  return Status::kSuccess;
}

}  // namespace

const itif::device::cuda::Cudnn cudnn = {
    .get_version =
        [] {
          const Lock lock(runtime().mutex);
          return runtime().device.cudnn_version;
        },
    .error_string = [](Status) { return "CUDNN_STATUS_OF_THE_SIMULATOR"; },
    .last_error_string = [](char* message, size_t) { *message = 0; },
    .create =
        [](Handle* handle) {
          if (wait_for_device() != cudaSuccess) return Status::kExecutionFailed;
          *handle = new itif::device::cuda::cudnn::Context;
          return Status::kSuccess;
        },
    .destroy =
        [](Handle handle) {
          delete handle;
          return wait_for_device() == cudaSuccess ? Status::kSuccess : Status::kExecutionFailed;
        },
    .set_stream =
        [](Handle handle, cudaStream_t stream) {
          handle->stream = stream;
          return Status::kSuccess;
        },
    .create_descriptor =
        [](DescriptorType type, Descriptor* made) {
          const Lock lock(runtime().mutex);
          if (rules_of(type) == nullptr) return Status::kNotSupported;
          *made = descriptors().add(type);
          return Status::kSuccess;
        },
    .destroy_descriptor =
        [](Descriptor descriptor) {
          const Lock lock(runtime().mutex);
          return descriptors().remove(descriptor) ? Status::kSuccess : Status::kBadParam;
        },
    .set_attribute = &set_attribute,
    .get_attribute = &get_attribute,
    .finalize =
        [](Descriptor descriptor) {
          const Lock lock(runtime().mutex);
          Node* const node = descriptors().find(descriptor);
          if (node == nullptr || node->is_final || !is_good(*node)) return Status::kBadParam;
          node->is_final = true;
          return Status::kSuccess;
        },
    .execute = &execute,
};

}  // namespace simt
