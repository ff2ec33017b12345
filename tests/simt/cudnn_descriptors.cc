#include "cudnn_descriptors.h"

#include <algorithm>

namespace simt {
namespace {

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

bool fit(const Operation& op) {
  for (const auto* tensor : {&*op.k, &*op.v, &*op.o})
    if (tensor->extents != op.q->extents) return false;
  return op.q->extents.size() == 4;
}

}  // namespace

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

using Extents = std::vector<int64_t>;
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

Descriptors& descriptors() {
  static Descriptors all;
  return all;
}

void use(Node& user, Node& used) {
  user.uses.push_back(&used);
  ++used.num_users;
}

}  // namespace simt
