#include "device/cuda/graph/graphs.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <string_view>
#include <utility>

#include "base/log.h"
#include "device/cuda/driver/captures.h"

namespace itif::device::cuda {
namespace {

constexpr size_t kMaxGraphs = 384;
// Device memory of a graph's node. Source: measured with driver 470 on graphs of 500 to 2,000
// kernels (forums.developer.nvidia.com, topic 244901). Later drivers need less.
constexpr size_t kNodeBytes = 64 << 10;
constexpr size_t kMinLaunches = 8;  // a graph of fewer saves nothing
constexpr size_t kMaxLaunches = 1024;
constexpr uint32_t kMaxTries = 3;

bool is_worth_it(const GraphSegment& segment) {
  return segment.size() >= kMinLaunches && segment.size() <= kMaxLaunches;
}

}  // namespace

uint64_t GraphCache::hash_of(std::span<const std::byte> key) const {
  constexpr uint64_t kSpread = 0x9e3779b97f4a7c15;  // 2^64 over the golden ratio
  const std::string_view text(reinterpret_cast<const char*>(key.data()), key.size());
  return std::max<uint64_t>(1, std::hash<std::string_view>{}(text) ^ (slice_ * kSpread));
}

GraphCache::~GraphCache() {
  for (auto& [hash, graph] : graphs_) destroy(graph);
}

cudaError_t GraphCache::launch(cudaStream_t stream, const GraphSegment& segment) {
  if (!is_worth_it(segment)) return segment.make(stream);
  const uint64_t hash = hash_of(segment.key);
  const auto found = graphs_.find(hash);
  if (found == graphs_.end() && std::ranges::find(seen_, hash) == seen_.end()) {
    seen_[next_seen_++ % seen_.size()] = hash;
    return segment.make(stream);
  }
  Graph& graph = found == graphs_.end() ? add(stream, segment, hash) : found->second;
  graph.last_used = ++turn_;
  if (graph.slice != slice_ || !std::ranges::equal(graph.key, segment.key))
    return segment.make(stream);
  if (graph.exec == nullptr && graph.num_tries < kMaxTries)
    if (const std::shared_lock lock(captures(), std::try_to_lock); lock)
      if (const cudaError_t error = capture(stream, segment, graph, Room::kEvict);
          error != cudaSuccess)
        return error;
  if (graph.exec == nullptr) return segment.make(stream);
  ++num_graph_launches_;
  return cudaGraphLaunch(graph.exec, stream);
}

cudaError_t GraphCache::prepare(cudaStream_t stream, const GraphSegment& segment) {
  const uint64_t hash = hash_of(segment.key);
  if (!is_worth_it(segment) || graphs_.contains(hash)) return cudaSuccess;
  if (budget_->used_bytes() + segment.size() * kNodeBytes > budget_->limit_bytes()) {
    count_without_room();
    return cudaSuccess;
  }
  load(stream, segment);
  const std::shared_lock lock(captures());
  Graph& graph = add(stream, segment, hash);
  const cudaError_t error = capture(stream, segment, graph, Room::kFree);
  if (graph.exec != nullptr) return cudaGraphUpload(graph.exec, stream);
  graphs_.erase(hash);
  return error;
}

void GraphCache::load(cudaStream_t stream, const GraphSegment& segment) {
  const std::unique_lock alone(captures());  // loading may synchronise the device
  if (const cudaError_t error = segment.load(stream); error != cudaSuccess)
    log::warning("the code of {} launches could not be loaded ahead of their first use: {}",
                 segment.size(), cudaGetErrorString(error));
  (void)cudaGetLastError();
}

bool GraphCache::has_graph(const GraphSegment& segment) const {
  const auto found = graphs_.find(hash_of(segment.key));
  return found != graphs_.end() && found->second.exec != nullptr;
}

void GraphCache::count_unworthy(size_t num_launches) {
  ++num_failed_captures_;
  log::info("no CUDA graph for a bucket of {} launches: only {} to {} launches are captured",
            num_launches, kMinLaunches, kMaxLaunches);
}

GraphCache::Graph& GraphCache::add(cudaStream_t stream, const GraphSegment& segment,
                                   uint64_t hash) {
  if (graphs_.size() >= kMaxGraphs) (void)evict_other_than(stream, nullptr);
  Graph& made = graphs_[hash];
  made = {};
  made.key.assign(segment.key.begin(), segment.key.end());
  made.last_used = ++turn_;
  made.slice = slice_;
  return made;
}

// A segment that cannot be captured stays without a graph: its kernels launch one by one. Only a
// faulty device is an error.
cudaError_t GraphCache::capture(cudaStream_t stream, const GraphSegment& segment, Graph& entry,
                                Room room) {
  ++entry.num_tries;
  if (const cudaError_t error = cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
      error != cudaSuccess)
    return error;
  const cudaError_t made = segment.capture(stream);
  cudaGraph_t graph = nullptr;
  const cudaError_t ended = cudaStreamEndCapture(stream, &graph);
  cudaError_t failure = made != cudaSuccess ? made : ended;
  if (failure == cudaSuccess) failure = instantiate(stream, graph, entry, room);
  if (failure == cudaErrorMemoryAllocation) {
    entry.exec = nullptr;
    count_without_room();
  } else if (failure != cudaSuccess) {
    entry.exec = nullptr;
    ++num_failed_captures_;
    log::warning("no CUDA graph for {} launches of a batch; its kernels launch one by one: {}",
                 segment.size(), cudaGetErrorString(failure));
  }
  if (entry.exec != nullptr) {
    has_no_room_ = false;
    entry.kept.assign(segment.kept.begin(), segment.kept.end());
  }
  if (graph != nullptr) (void)cudaGraphDestroy(graph);
  (void)cudaGetLastError();
  return cudaSuccess;
}

cudaError_t GraphCache::instantiate(cudaStream_t stream, cudaGraph_t captured, Graph& entry,
                                    Room room) {
  size_t num_nodes = 0;
  if (const cudaError_t error = cudaGraphGetNodes(captured, nullptr, &num_nodes);
      error != cudaSuccess)
    return error;
  const size_t bytes = num_nodes * kNodeBytes;
  while (!budget_->take(bytes, "CUDA graphs"))
    if (room == Room::kFree || !evict_other_than(stream, &entry)) return cudaErrorMemoryAllocation;
  const cudaError_t made = cudaGraphInstantiate(&entry.exec, captured, 0);
  if (made == cudaSuccess)
    entry.bytes = bytes;
  else
    budget_->give_back(bytes);
  return made;
}

// Writes one line until a graph finds room again: a warm-up has dozens of them.
void GraphCache::count_without_room() {
  ++num_failed_captures_;
  if (std::exchange(has_no_room_, true)) return;
  log::warning(
      "the device's memory for CUDA graphs is used up: this group has {} and captures no more "
      "ahead, so that the kernels of its other batches launch one by one",
      graphs_.size());
}

// Evicts the least recently used graph. Returns false if there is none.
bool GraphCache::evict_other_than(cudaStream_t stream, const Graph* graph) {
  auto oldest = graphs_.end();
  for (auto it = graphs_.begin(); it != graphs_.end(); ++it)
    if (&it->second != graph &&
        (oldest == graphs_.end() || it->second.last_used < oldest->second.last_used))
      oldest = it;
  if (oldest == graphs_.end()) return false;
  // A replay in flight may read the host memory.
  if (!oldest->second.kept.empty()) (void)cudaStreamSynchronize(stream);
  destroy(oldest->second);
  graphs_.erase(oldest);
  return true;
}

void GraphCache::destroy(Graph& graph) {
  if (graph.exec == nullptr) return;
  (void)cudaGraphExecDestroy(graph.exec);
  budget_->give_back(graph.bytes);
}

}  // namespace itif::device::cuda
