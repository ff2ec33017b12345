// The descriptors of the simulated cuDNN: the attributes that they accept and hold, and the
// operation that they describe.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "device/cuda/cudnn/cudnn.h"

namespace simt {

using namespace itif::device::cuda::cudnn;

// An attribute that a descriptor accepts: its type and number of values.
struct Rule {
  Attribute attribute;
  AttributeType type;
  int64_t least = 1, most = 1;
  bool is_required = true;
  DescriptorType of = {};  // of values that are descriptors
};
using Rules = std::vector<Rule>;

// Returns nullptr if there is no such descriptor.
const Rules* rules_of(DescriptorType type);
size_t bytes_of_value(AttributeType type);

class Node {
 public:
  explicit Node(DescriptorType type) : type(type) {}

  const DescriptorType type;
  bool is_final = false, compiles = true;
  int num_users = 0;  // descriptors made of it
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

// Returns whether the node has valid values for all required attributes.
bool is_good(const Node& node);

// A tensor as an operation reads it.
struct Tensor {
  int64_t id = 0;
  DataType type = DataType::kFloat;
  std::vector<int64_t> extents, strides;
  int64_t alignment = 0, offsets = 0;  // offsets: id of its offsets' tensor; 0: not ragged
  bool is_by_value = false;
};

struct Operation {
  std::optional<Tensor> q, k, v, o, scale, lengths_q, lengths_k;
  std::vector<Tensor> all;  // tensors that a variant pack must hold, offsets included
  int64_t segments() const { return q->extents[0]; }
};
Operation operation_of(const Node* node);
// Returns whether this cuDNN has a kernel for the operation.
bool has_plan(const Operation& op);

// All live descriptors.
class Descriptors {
 public:
  Node* add(DescriptorType type) { return all_.emplace_back(std::make_unique<Node>(type)).get(); }
  // Returns nullptr if the descriptor does not exist or no longer exists.
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
Descriptors& descriptors();
// Keeps `used` alive until `user` is destroyed.
void use(Node& user, Node& used);

}  // namespace simt
