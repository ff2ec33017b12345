// CUDA graphs of what comes again. What small batches cost is their launches; a graph makes all of a part's by one (a
// part: what Stream::begin_part() separates). Parts are told apart by everything their launches depend on (LaunchKey);
// what else differs between two of the same key, token ids and positions and weights' addresses, stands in the batch's
// plan memory.
#pragma once

#include <cuda_runtime.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "kernels/cuda/launch_log.h"

namespace itif::device::cuda {

// What launches depend on, value by value.
class LaunchKey {
 public:
  // Of an operator's arguments: without the host's arrays, which are gone when the launch runs.
  template <class Args>
  void add_arguments(Args args) {
    forget_spans(args);
    add(args);
  }
  template <class T>
  void add(T value) {
    static_assert(std::is_trivially_copyable_v<T>);
#if __has_builtin(__builtin_clear_padding)
    __builtin_clear_padding(&value);
#endif
    const auto* bytes = reinterpret_cast<const std::byte*>(&value);
    bytes_.insert(bytes_.end(), bytes, bytes + sizeof value);
  }
  void clear() {
    bytes_.clear();
  }
  std::span<const std::byte> bytes() const {
    return bytes_;
  }

 private:
  template <class Args>
  static void forget_spans(Args& args) {
    if constexpr (requires { args.ranges; }) args.ranges = {};
    if constexpr (requires { args.segments; }) args.segments = {};
    if constexpr (requires { args.positions; }) args.positions = {};
    if constexpr (requires { args.token_types; }) args.token_types = {};
    if constexpr (requires { args.pieces; }) args.pieces = {};
    if constexpr (requires { args.images; }) args.images = {};
    if constexpr (requires { args.chosen; }) args.chosen = {};
    if constexpr (requires { args.places; }) args.places = {};
    if constexpr (requires { args.copies; }) args.copies = {};
    if constexpr (requires { args.tables; }) args.tables = {};
    if constexpr (requires { args.blocks; }) args.blocks = {};
    if constexpr (requires { args.banned; }) args.banned = {};
    if constexpr (requires { args.banned_of; }) args.banned_of = {};
    if constexpr (requires { args.parts; }) args.parts = {};
    if constexpr (requires { args.mode; }) args.mode = {};
  }
  std::vector<std::byte> bytes_;
};

// A part of a batch's launches, and its key.
struct LaunchPart {
  const kernels::cuda::LaunchLog& log;
  kernels::cuda::LaunchLog::Mark from, to;
  std::span<const std::byte> key;

  size_t size() const { return to.size - from.size; }
  cudaError_t make(cudaStream_t stream) const { return log.make(from, to, stream); }
  cudaError_t capture(cudaStream_t stream) const {
    return log.make(from, to, stream, kernels::cuda::LaunchLog::After::kStop);
  }
};

class GraphCache {
 public:
  GraphCache() = default;
  ~GraphCache();
  GraphCache(const GraphCache&) = delete;
  GraphCache& operator=(const GraphCache&) = delete;

  // Makes the launches of a part: from the second time on that its key comes, as one graph, unless somebody makes the
  // device wait just then (captures.h). Returns the first error.
  cudaError_t launch(cudaStream_t stream, const LaunchPart& part);
  // Makes the graph alone; waits for such. What cannot be captured now may be when it comes.
  cudaError_t prepare(cudaStream_t stream, const LaunchPart& part);
  size_t size() const { return graphs_.size(); }
  uint64_t num_graph_launches() const { return num_graph_launches_; }

 private:
  struct Graph {
    std::vector<std::byte> key;
    cudaGraphExec_t exec = nullptr;  // null: it could not be captured so far
    uint32_t num_tries = 0;
    uint64_t last_used = 0;
  };
  static cudaError_t capture(cudaStream_t stream, const LaunchPart& part, Graph& graph);
  Graph& add(const LaunchPart& part, uint64_t hash);
  void make_room();

  std::unordered_map<uint64_t, Graph> graphs_;  // by the key's hash
  std::array<uint64_t, 256> seen_{};            // hashes of keys that came once, of late
  size_t next_seen_ = 0;
  uint64_t turn_ = 0, num_graph_launches_ = 0;
};

}  // namespace itif::device::cuda
