// CUDA graphs of repeated graph segments. Launches dominate the cost of small batches; a graph
// makes all launches of a segment by a single one. Stream::end_graph_segment() separates segments.
// A segment's key holds everything that its launches depend on (LaunchKey). Segments of the same
// key may differ only in data that the batch's plan memory holds: token ids, positions, addresses
// of weights.
#pragma once

#include <cuda_runtime.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "device/cuda/memory/memory.h"
#include "kernels/cuda/launch_log.h"
#include "kernels/spans.h"

namespace itif::device::cuda {

// The values that launches depend on.
class LaunchKey {
 public:
  // Adds an operator's arguments without their spans of host memory, which is gone when the launch
  // runs.
  template <class Args>
  void add_arguments(Args args) {
    kernels::for_each_span(args, [](auto& span) { span = {}; });
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
  void append(std::span<const std::byte> bytes) {
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  }
  // Keeps host memory that the launches may read. A graph of them keeps it, too, because a replay
  // may read it again. The key must determine its contents.
  void keep(std::shared_ptr<const void> memory) {
    kept_.push_back(std::move(memory));
  }
  void clear() {
    bytes_.clear();
    kept_.clear();
  }
  std::span<const std::byte> bytes() const {
    return bytes_;
  }
  std::span<const std::shared_ptr<const void>> kept() const {
    return kept_;
  }

 private:
  std::vector<std::byte> bytes_;
  std::vector<std::shared_ptr<const void>> kept_;
};

// A graph segment of a batch's launches, and its key.
struct GraphSegment {
  const kernels::cuda::LaunchLog& log;
  kernels::cuda::LaunchLog::Mark from, to;
  std::span<const std::byte> key;
  std::span<const std::shared_ptr<const void>> kept;  // host memory that the launches may read

  size_t size() const { return to.size - from.size; }
  cudaError_t make(cudaStream_t stream) const { return log.make(from, to, stream); }
  cudaError_t load(cudaStream_t stream) const { return log.load(from, to, stream); }
  cudaError_t capture(cudaStream_t stream) const {
    return log.make(from, to, stream, kernels::cuda::LaunchLog::After::kStop);
  }
};

class GraphCache {
 public:
  explicit GraphCache(std::shared_ptr<Budget> budget) : budget_(std::move(budget)) {}
  ~GraphCache();
  GraphCache(const GraphCache&) = delete;
  GraphCache& operator=(const GraphCache&) = delete;

  // Makes the launches of a segment. The second launch of a key captures it; from then on one graph
  // launch replays it. No capture starts while another thread synchronises the device (captures.h).
  // If the budget has no room, the least recently used graphs make room.
  // Returns the first error.
  cudaError_t launch(cudaStream_t stream, const GraphSegment& segment);
  // Captures a segment without running it; waits for threads that synchronise the device. Loads the
  // code of its launches first. If the capture fails, launch() may try again. If the budget has no
  // room, that is a failure, and nothing is captured.
  cudaError_t prepare(cudaStream_t stream, const GraphSegment& segment);
  // Loads the code of a segment's launches, and logs a failure.
  static void load(cudaStream_t stream, const GraphSegment& segment);
  bool has_graph(const GraphSegment& segment) const;
  // From now on, segments are launched on a stream of `slice`. A graph runs on the slice where it
  // was captured, whatever stream it is launched on, so each slice has graphs of its own.
  void use_slice(uint32_t slice) { slice_ = slice; }
  // Counts a bucket of too few or too many launches for a graph as a capture that failed.
  void count_unworthy(size_t num_launches);
  size_t size() const { return graphs_.size(); }
  uint64_t num_graph_launches() const { return num_graph_launches_; }
  uint64_t num_failed_captures() const { return num_failed_captures_; }

 private:
  uint64_t hash_of(std::span<const std::byte> key) const;
  enum class Room : bool { kFree, kEvict };  // kEvict: evicts other graphs if the budget has none
  struct Graph {
    std::vector<std::byte> key;
    std::vector<std::shared_ptr<const void>> kept;
    cudaGraphExec_t exec = nullptr;  // null: not captured so far
    size_t bytes = 0;                // taken from the budget
    uint32_t num_tries = 0, slice = 0;
    uint64_t last_used = 0;
  };
  cudaError_t capture(cudaStream_t stream, const GraphSegment& segment, Graph& graph, Room room);
  cudaError_t instantiate(cudaStream_t stream, cudaGraph_t captured, Graph& graph, Room room);
  bool evict_other_than(cudaStream_t stream, const Graph* graph);
  void count_without_room();
  void destroy(Graph& graph);
  Graph& add(cudaStream_t stream, const GraphSegment& segment, uint64_t hash);
  const std::shared_ptr<Budget> budget_;        // all streams of a device share it
  std::unordered_map<uint64_t, Graph> graphs_;  // by the key's hash
  std::array<uint64_t, 256> seen_{};            // hashes of the latest keys seen once
  size_t next_seen_ = 0;
  uint32_t slice_ = 0;
  uint64_t turn_ = 0, num_graph_launches_ = 0, num_failed_captures_ = 0;
  bool has_no_room_ = false;  // as the log says
};

}  // namespace itif::device::cuda
