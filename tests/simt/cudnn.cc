#include "cudnn.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <span>

#include "machine.h"
#include "product.h"

namespace itif::device::cuda::cudnn {

struct Context {
  cudaStream_t stream = nullptr;
};

}  // namespace itif::device::cuda::cudnn

namespace simt {
namespace {

using namespace itif::device::cuda::cudnn;

constexpr int64_t kWorkspaceBytesOfSegment = 256;

// What a descriptor takes: an attribute's type and how many values it has.
struct Rule {
  Attribute attribute;
  AttributeType type;
  int64_t least = 1, most = 1;
  bool is_required = true;
  DescriptorType of = {};  // of values that are descriptors
};
using Rules = std::vector<Rule>;

const Rules* rules_of(DescriptorType type) {
  using A = Attribute;
  using T = AttributeType;
  static constexpr auto kTensorValue = DescriptorType::kTensor;
  static const auto operand = [](A attribute, bool is_required) {
    return Rule{attribute, T::kDescriptor, 1, 1, is_required, kTensorValue};
  };
  static const std::map<DescriptorType, Rules> all = {
      {DescriptorType::kTensor,
       {{A::kTensorUniqueId, T::kInt64},
        {A::kTensorDataType, T::kDataType},
        {A::kTensorDimensions, T::kInt64, 1, 8},
        {A::kTensorStrides, T::kInt64, 1, 8},
        {A::kTensorByteAlignment, T::kInt64},
        {A::kTensorIsByValue, T::kBoolean, 1, 1, false},
        operand(A::kTensorRaggedOffset, false)}},
      {DescriptorType::kSdpaForward,
       {operand(A::kSdpaForwardQuery, true), operand(A::kSdpaForwardKey, true),
        operand(A::kSdpaForwardValue, true), operand(A::kSdpaForwardOutput, true),
        operand(A::kSdpaForwardScale, false), operand(A::kSdpaForwardQueryLengths, false),
        operand(A::kSdpaForwardKeyLengths, false)}},
      {DescriptorType::kOperationGraph,
       {{A::kOperationGraphHandle, T::kHandle},
        {A::kOperationGraphOperations, T::kDescriptor, 1, 1, true, DescriptorType::kSdpaForward}}},
      {DescriptorType::kEngineHeuristics,
       {{A::kEngineHeuristicsOperationGraph, T::kDescriptor, 1, 1, true,
         DescriptorType::kOperationGraph},
        {A::kEngineHeuristicsMode, T::kHeuristicMode}}},
      {DescriptorType::kEngineConfig, {}},
      {DescriptorType::kExecutionPlan,
       {{A::kExecutionPlanHandle, T::kHandle},
        {A::kExecutionPlanEngineConfig, T::kDescriptor, 1, 1, true,
         DescriptorType::kEngineConfig}}},
      {DescriptorType::kVariantPack,
       {{A::kVariantPackUniqueIds, T::kInt64, 1, 64},
        {A::kVariantPackDataPointers, T::kVoidPointer, 1, 64},
        {A::kVariantPackWorkspace, T::kVoidPointer}}},
  };
  const auto found = all.find(type);
  return found == all.end() ? nullptr : &found->second;
}

size_t bytes_of_value(AttributeType type) {
  switch (type) {
    case AttributeType::kBoolean:
    case AttributeType::kChar: return 1;
    case AttributeType::kDataType:
    case AttributeType::kHeuristicMode: return 4;
    default: return 8;
  }
}

class Node {
 public:
  explicit Node(DescriptorType type) : type(type) {}

  const DescriptorType type;
  bool is_final = false, compiles = true;
  int num_users = 0;  // that were made of it
  std::map<Attribute, std::vector<std::byte>> attributes;
  std::vector<Node*> uses;

  template <class T>
  std::vector<T> all(Attribute attribute) const {
    const auto found = attributes.find(attribute);
    if (found == attributes.end()) return {};
    std::vector<T> values(found->second.size() / sizeof(T));
    std::memcpy(values.data(), found->second.data(), values.size() * sizeof(T));
    return values;
  }
  template <class T>
  T one(Attribute attribute, T otherwise = {}) const {
    const auto values = all<T>(attribute);
    return values.empty() ? otherwise : values[0];
  }
  const Node* node(Attribute attribute) const { return one<Node*>(attribute); }
};

// A tensor as an operation reads it.
struct Tensor {
  int64_t id = 0;
  DataType type = DataType::kFloat;
  std::vector<int64_t> extents, strides;
  int64_t alignment = 0, offsets = 0;  // by whose id; 0: it is not ragged
  bool is_by_value = false;
};
std::optional<Tensor> tensor_of(const Node* node) {
  if (node == nullptr) return std::nullopt;
  const Node* const offsets = node->node(Attribute::kTensorRaggedOffset);
  return Tensor{
      .id = node->one<int64_t>(Attribute::kTensorUniqueId),
      .type = node->one<DataType>(Attribute::kTensorDataType),
      .extents = node->all<int64_t>(Attribute::kTensorDimensions),
      .strides = node->all<int64_t>(Attribute::kTensorStrides),
      .alignment = node->one<int64_t>(Attribute::kTensorByteAlignment),
      .offsets = offsets == nullptr ? 0 : offsets->one<int64_t>(Attribute::kTensorUniqueId),
      .is_by_value = node->one<uint8_t>(Attribute::kTensorIsByValue) != 0};
}

struct Operation {
  std::optional<Tensor> q, k, v, o, scale, lengths_q, lengths_k;
  std::vector<Tensor> all;  // what a pack has to hold, offsets among them
  int64_t segments() const { return q->extents[0]; }
};
Operation operation_of(const Node* node) {
  Operation made;
  const auto take = [&](Attribute attribute) {
    const Node* const tensor = node->node(attribute);
    if (tensor == nullptr) return std::optional<Tensor>();
    made.all.push_back(*tensor_of(tensor));
    if (const auto offsets = tensor_of(tensor->node(Attribute::kTensorRaggedOffset)))
      made.all.push_back(*offsets);
    return tensor_of(tensor);
  };
  made.q = take(Attribute::kSdpaForwardQuery);
  made.k = take(Attribute::kSdpaForwardKey);
  made.v = take(Attribute::kSdpaForwardValue);
  made.o = take(Attribute::kSdpaForwardOutput);
  made.scale = take(Attribute::kSdpaForwardScale);
  made.lengths_q = take(Attribute::kSdpaForwardQueryLengths);
  made.lengths_k = take(Attribute::kSdpaForwardKeyLengths);
  return made;
}
bool fit(const Operation& op) {
  for (const auto* tensor : {&*op.k, &*op.v, &*op.o})
    if (tensor->extents != op.q->extents) return false;
  return op.q->extents.size() == 4;
}

using Extents = std::vector<int64_t>;
// What this cuDNN has kernels for.
bool has_plan(const Operation& op) {
  if (!op.scale || !op.scale->is_by_value || op.scale->type != DataType::kFloat) return false;
  if (!op.lengths_q || !op.lengths_k) return false;
  for (const auto* lengths : {&*op.lengths_q, &*op.lengths_k})
    if (lengths->type != DataType::kInt32 || lengths->extents != Extents{op.segments(), 1, 1, 1})
      return false;
  for (const auto* tensor : {&*op.q, &*op.k, &*op.v, &*op.o}) {
    const auto offsets = std::ranges::find(op.all, tensor->offsets, &Tensor::id);
    if (tensor->offsets == 0 || offsets->type != DataType::kInt32 ||
        offsets->extents != Extents{op.segments() + 1, 1, 1, 1})
      return false;
    if (tensor->type != op.q->type || tensor->alignment < 16 || tensor->strides[3] != 1)
      return false;
    for (size_t i = 0; i < 3; ++i)
      if (tensor->strides[i] % 8 != 0) return false;
  }
  return (op.q->type == DataType::kHalf || op.q->type == DataType::kBFloat16) &&
         op.q->extents[3] % 8 == 0 && op.q->extents[3] <= 256;
}

bool is_good(const Node& node) {
  for (const Rule& rule : *rules_of(node.type)) {
    if (rule.is_required && !node.attributes.contains(rule.attribute)) return false;
    if (rule.type != AttributeType::kDescriptor) continue;
    for (const Node* used : node.all<Node*>(rule.attribute))
      if (!used->is_final || used->type != rule.of) return false;
  }
  switch (node.type) {
    case DescriptorType::kTensor: {
      const Tensor tensor = *tensor_of(&node);
      return tensor.extents.size() == tensor.strides.size();
    }
    case DescriptorType::kSdpaForward: return fit(operation_of(&node));
    case DescriptorType::kExecutionPlan:
      return node.node(Attribute::kExecutionPlanEngineConfig)->compiles;
    case DescriptorType::kVariantPack:
      return node.all<int64_t>(Attribute::kVariantPackUniqueIds).size() ==
             node.all<void*>(Attribute::kVariantPackDataPointers).size();
    case DescriptorType::kEngineConfig: return false;  // they come from the heuristics
    default: return true;
  }
}

class Descriptors {
 public:
  Node* add(DescriptorType type) { return all_.emplace_back(std::make_unique<Node>(type)).get(); }
  // nullptr: there is none, or no longer.
  Node* find(Descriptor descriptor) {
    const auto found = std::ranges::find(
        all_, descriptor, [](const auto& one) { return static_cast<Descriptor>(one.get()); });
    return found == all_.end() ? nullptr : found->get();
  }
  bool remove(Descriptor descriptor) {
    Node* const node = find(descriptor);
    if (node == nullptr || node->num_users > 0) return false;
    for (Node* used : node->uses) --used->num_users;
    std::erase_if(all_, [&](const auto& one) { return one.get() == node; });
    return true;
  }

 private:
  std::vector<std::unique_ptr<Node>> all_;
};
Descriptors& descriptors() {
  static Descriptors all;
  return all;
}

void use(Node& user, Node& used) {
  user.uses.push_back(&used);
  ++used.num_users;
}

// One call, with what it reads of the device when it is done.
struct Run {
  Operation op;
  std::map<int64_t, void*> pointers;
  float scale = 1;
  std::byte* workspace = nullptr;

  cudaDataType type() const { return op.q->type == DataType::kHalf ? CUDA_R_16F : CUDA_R_16BF; }
  int32_t length(const Tensor& lengths, int64_t segment) const {
    return static_cast<const int32_t*>(pointers.at(lengths.id))[segment];
  }
  // Of the first value of a head's row.
  size_t at(const Tensor& tensor, int64_t segment, int64_t head, int64_t row) const {
    const auto* const offsets = static_cast<const int32_t*>(pointers.at(tensor.offsets));
    return static_cast<size_t>(offsets[segment] + head * tensor.strides[1] +
                               row * tensor.strides[2]);
  }
  // [num_rows][head size]
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
        const float narrow = rounded(weight, type());  // what tensor cores take
        for (size_t i = 0; i < width; ++i) sum[i] += narrow * v[key * width + i];
      }
      for (float& value : sum) value /= total;
      put(segment, head, query, sum);
    }
  }

  void operator()() const {
    const int64_t heads = op.q->extents[1], most_rows = op.q->extents[2];
    const std::vector<float> poison(static_cast<size_t>(op.q->extents[3]), std::nanf(""));
    std::memset(workspace, 0xFF, static_cast<size_t>(kWorkspaceBytesOfSegment * op.segments()));
    for (int64_t segment = 0; segment < op.segments(); ++segment) {
      const int64_t queries = std::min<int64_t>(most_rows, length(*op.lengths_q, segment)),
                    keys = std::min<int64_t>(most_rows, length(*op.lengths_k, segment));
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
  const cudaError_t error = enqueue_work(handle->stream, std::move(run));
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
          *handle = new Context;
          return Status::kSuccess;
        },
    .destroy =
        [](Handle handle) {
          delete handle;
          return Status::kSuccess;
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
