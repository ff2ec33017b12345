// The simulated cuDNN's descriptors: what they take and what was given to them, and the operation that they describe.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "device/cuda/cudnn.h"

namespace simt {

using namespace itif::device::cuda::cudnn;

// What a descriptor takes: an attribute's type and how many values it has.
struct Rule {
  Attribute attribute;
  AttributeType type;
  int64_t least = 1, most = 1;
  bool is_required = true;
  DescriptorType of = {};  // of values that are descriptors
};
using Rules = std::vector<Rule>;

// nullptr: there is no such descriptor.
const Rules* rules_of(DescriptorType type);
size_t bytes_of_value(AttributeType type);

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

// Whether it has what its kind requires, and that fits.
bool is_good(const Node& node);

// A tensor as an operation reads it.
struct Tensor {
  int64_t id = 0;
  DataType type = DataType::kFloat;
  std::vector<int64_t> extents, strides;
  int64_t alignment = 0, offsets = 0;  // by whose id; 0: it is not ragged
  bool is_by_value = false;
};

struct Operation {
  std::optional<Tensor> q, k, v, o, scale, lengths_q, lengths_k;
  std::vector<Tensor> all;  // what a pack has to hold, offsets among them
  int64_t segments() const { return q->extents[0]; }
};
Operation operation_of(const Node* node);
// Whether this cuDNN has a kernel for it.
bool has_plan(const Operation& op);

// All there are.
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
Descriptors& descriptors();
// `used` stays until `user` is gone.
void use(Node& user, Node& used);

}  // namespace simt
