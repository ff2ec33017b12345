
#include <omp.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <oneapi/dnnl/dnnl.hpp>
#include <unordered_map>
#include <vector>

#include "base/check.h"
#include "base/clock.h"
#include "base/random.h"
#include "kernels/host/launch.h"
#include "limits/bare_parts.h"
#include "limits/noise.h"

namespace itif::bench {
namespace {

using dnnl::memory;

dnnl::engine& engine() {
  static dnnl::engine cpu(dnnl::engine::kind::cpu, 0);
  return cpu;
}

// Memory in huge pages, as the device's buffers are: otherwise the floor would be slower than the
// run that it bounds. Small matrices share pages.
class HugePages {
 public:
  HugePages() = default;
  HugePages(const HugePages&) = delete;
  HugePages& operator=(const HugePages&) = delete;
  ~HugePages() {
    for (const std::span<std::byte> chunk : chunks_) munmap(chunk.data(), chunk.size());
  }
  // Valid as long as this object.
  void* allocate(size_t bytes) {
    bytes = round_up(std::max<size_t>(bytes, 1), kAlignment);
    while (current_ < chunks_.size() && used_ + bytes > chunks_[current_].size()) {
      ++current_;
      used_ = 0;
    }
    if (current_ == chunks_.size()) map_chunk(bytes);
    void* data = chunks_[current_].data() + used_;
    used_ += bytes;
    return data;
  }
  // Allocates the same memory again from here on.
  void rewind() { current_ = used_ = 0; }

 private:
  static constexpr size_t kHugePage = 2u << 20, kChunk = 16 * kHugePage, kAlignment = 64;
  static size_t round_up(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }
  void map_chunk(size_t least_bytes) {
    const size_t bytes = round_up(std::max(least_bytes, kChunk), kHugePage);
    void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(data != MAP_FAILED);
    madvise(data, bytes, MADV_HUGEPAGE);
    chunks_.emplace_back(static_cast<std::byte*>(data), bytes);
  }

  std::vector<std::span<std::byte>> chunks_;
  size_t current_ = 0, used_ = 0;  // chunk, and bytes of it
};

// Memory of GEMMs' operands. Each GEMM has weights of its own. GEMMs that never run concurrently
// share inputs and outputs, as the operators of a pass do, so that these stay in the cache.
struct Operands {
  HugePages weights, inputs, outputs;

  // The GEMMs made from here on do not run concurrently with those made before.
  void share() {
    inputs.rewind();
    outputs.rewind();
  }
};

template <class Element>
void fill(void* data, size_t count, Element (*rounded)(float), Random& random) {
  static const std::vector<Element> noise = [&] {
    std::vector<Element> values(1 << 20);
    for (Element& v : values) v = rounded(static_cast<float>(random.uniform() - 0.5) * 0.1f);
    return values;
  }();
  fill_from<Element>(noise, random.below(noise.size()), {static_cast<Element*>(data), count});
}

// Small random numbers: zeros would let the hardware save power.
void fill(void* data, size_t count, DType type, Random& random) {
  if (type == DType::kBF16)
    fill<uint16_t>(data, count, f32_to_bf16, random);
  else
    fill<float>(
        data, count, [](float value) { return value; }, random);
}

// One call of oneDNN. Uses the weights of another call, if given.
class DnnlCall {
 public:
  DnnlCall(const Hardware& on, const GemmSize& size, Operands& operands,
           const DnnlCall* weights_of = nullptr)
      : stream_(engine()), threads_(static_cast<int>(on.threads)) {
    const DType type = on.compute.activations;
    const auto [rows, n, k] = size;
    omp_set_num_threads(threads_);
    const auto element = type == DType::kBF16 ? memory::data_type::bf16 : memory::data_type::f32;
    const memory::desc a({rows, k}, element, memory::format_tag::ab);
    const memory::desc w = weights_of ? weights_of->arguments_.at(DNNL_ARG_WEIGHTS).get_desc()
                                      : memory::desc({k, n}, element, memory::format_tag::any);
    const memory::desc out({rows, n}, element, memory::format_tag::ab);
    dnnl::primitive_attr attr;
    attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
#if DNNL_VERSION_MAJOR >= 3
    const dnnl::matmul::primitive_desc description(engine(), a, w, out, attr);
#else
    const dnnl::matmul::primitive_desc description(dnnl::matmul::desc(a, w, out), attr, engine());
#endif
    primitive_ = dnnl::matmul(description);
    Random random(rows + n + k);
    const auto add = [&](int argument, const memory::desc& layout, HugePages& pages) {
      void* data = pages.allocate(layout.get_size());
      if (&pages != &operands.outputs)
        fill(data, layout.get_size() / dtype_bytes(type), type, random);
      arguments_.emplace(argument, memory(layout, engine(), data));
    };
    add(DNNL_ARG_SRC, a, operands.inputs);
    if (weights_of)
      arguments_.emplace(DNNL_ARG_WEIGHTS, weights_of->arguments_.at(DNNL_ARG_WEIGHTS));
    else
      add(DNNL_ARG_WEIGHTS, description.weights_desc(), operands.weights);
    add(DNNL_ARG_DST, out, operands.outputs);
    add(DNNL_ARG_SCRATCHPAD, description.scratchpad_desc(), operands.outputs);
  }

  void run() {
    omp_set_num_threads(threads_);
    primitive_.execute(stream_, arguments_);
  }

 private:
  dnnl::stream stream_;
  int threads_;
  dnnl::matmul primitive_;
  std::unordered_map<int, memory> arguments_;
};

uint64_t fastest_ns(const std::function<void()>& function) {
  static const SystemClock clock;
  uint64_t min_ns = UINT64_MAX;
  for (int i = 0; i < 4; ++i) {
    const uint64_t before_ns = clock.now_ns();
    function();
    min_ns = std::min(min_ns, clock.now_ns() - before_ns);
  }
  return min_ns;
}

// A GEMM by whichever is faster: one call, or calls of at most kCallRows rows. oneDNN divides some
// numbers of rows badly, and a limit must not.
class DnnlGemm {
 public:
  DnnlGemm(const Hardware& on, const GemmSize& size, Operands& operands,
           const DnnlGemm* weights_of = nullptr) {
    const DnnlCall* weights = weights_of ? weights_of->calls_.front().get() : nullptr;
    calls_.push_back(std::make_unique<DnnlCall>(on, size, operands, weights));
    if (size.rows <= kCallRows) return;
    Calls divided;
    for (uint32_t row = 0; row < size.rows; row += kCallRows) {
      GemmSize part = size;
      part.rows = std::min(kCallRows, size.rows - row);
      divided.push_back(std::make_unique<DnnlCall>(on, part, operands,
                                                   row == 0 ? weights : divided.front().get()));
    }
    if (fastest_ns([&] { run(divided); }) < fastest_ns([&] { run(calls_); }))
      calls_ = std::move(divided);
  }

  void run() { run(calls_); }

 private:
  static constexpr uint32_t kCallRows = 256;
  using Calls = std::vector<std::unique_ptr<DnnlCall>>;

  static void run(Calls& calls) {
    for (const auto& call : calls) call->run();
  }

  Calls calls_;
};

// Independent GEMMs by whichever is faster: one after another on all threads, or one per thread at
// a time.
class DnnlGroup {
 public:
  DnnlGroup(const Hardware& on, std::span<const GemmSize> sizes, Operands& operands,
            std::vector<std::unique_ptr<DnnlGemm>>& gemms, std::span<const uint32_t> group)
      : threads_(static_cast<int>(on.threads)) {
    for (const uint32_t at : group) alone_.push_back(gemms[at].get());
    if (group.size() < 2 || on.threads < 2) return;
    std::vector<uint32_t> longest_first(group.begin(), group.end());
    std::ranges::sort(longest_first, std::greater(), [&](uint32_t at) { return sizes[at].rows; });
    Hardware one_thread = on;
    one_thread.threads = 1;
    for (const uint32_t at : longest_first)
      together_.push_back(
          std::make_unique<DnnlGemm>(one_thread, sizes[at], operands, gemms[at].get()));
    if (fastest_ns([&] { run_alone(); }) <= fastest_ns([&] { run_together(); })) together_.clear();
  }
  void run() {
    if (together_.empty())
      run_alone();
    else
      run_together();
  }

 private:
  void run_alone() {
    for (DnnlGemm* gemm : alone_) gemm->run();
  }
  void run_together() {
    omp_set_num_threads(threads_);
#pragma omp parallel for schedule(dynamic, 1)
    for (std::unique_ptr<DnnlGemm>& gemm : together_) gemm->run();
  }

  const int threads_;
  std::vector<DnnlGemm*> alone_;
  std::vector<std::unique_ptr<DnnlGemm>> together_;  // of one thread each; empty: slower
};

class DnnlGemms final : public Bare {
 public:
  DnnlGemms(const Hardware& on, std::span<const GemmSize> sizes, const GemmOrder& order)
      : gemms_(sizes.size()) {
    std::map<std::vector<uint32_t>, DnnlGroup*> made;
    for (const std::vector<uint32_t>& group : order) {
      DnnlGroup*& known = made[group];
      if (known == nullptr) known = make_group(on, sizes, group);
      order_.push_back(known);
    }
  }
  void run() override {
    for (DnnlGroup* group : order_) group->run();
  }

 private:
  DnnlGroup* make_group(const Hardware& on, std::span<const GemmSize> sizes,
                        const std::vector<uint32_t>& group) {
    operands_.share();
    for (const uint32_t at : group)
      if (gemms_[at] == nullptr) gemms_[at] = std::make_unique<DnnlGemm>(on, sizes[at], operands_);
    operands_.share();
    groups_.push_back(std::make_unique<DnnlGroup>(on, sizes, operands_, gemms_, group));
    return groups_.back().get();
  }

  Operands operands_;
  std::vector<std::unique_ptr<DnnlGemm>> gemms_;
  std::vector<std::unique_ptr<DnnlGroup>> groups_;
  std::vector<DnnlGroup*> order_;
};

// Chains of GEMMs, each on one thread at a time. Threads take chains as they become free.
class DnnlChains final : public Bare {
 public:
  DnnlChains(const Hardware& on, std::span<const GemmSize> sizes,
             const std::vector<GemmOrder>& chains)
      : threads_(static_cast<int>(on.threads)), operands_(chains.size()), gemms_(sizes.size()) {
    Hardware one_thread = on;
    one_thread.threads = 1;
    for (size_t i = 0; i < chains.size(); ++i) {
      std::vector<DnnlGemm*>& chain = chains_.emplace_back();
      for (const std::vector<uint32_t>& group : chains[i])
        for (const uint32_t at : group) {
          operands_[i].share();
          if (gemms_[at] == nullptr)
            gemms_[at] = std::make_unique<DnnlGemm>(one_thread, sizes[at], operands_[i]);
          chain.push_back(gemms_[at].get());
        }
    }
  }
  void run() override {
    omp_set_num_threads(threads_);
#pragma omp parallel for schedule(dynamic, 1)
    for (std::vector<DnnlGemm*>& chain : chains_)
      for (DnnlGemm* gemm : chain) gemm->run();
  }

 private:
  const int threads_;
  std::vector<Operands> operands_;  // of each chain
  std::vector<std::unique_ptr<DnnlGemm>> gemms_;
  std::vector<std::vector<DnnlGemm*>> chains_;
};

// On all threads, or on one if that is faster: waking the others takes longer than a small copy.
class HostCopy final : public Bare {
 public:
  HostCopy(size_t bytes, uint32_t times, uint32_t threads)
      : times_(times), threads_(threads), from_(bytes), to_(bytes) {
    if (bytes > kSmallBytes) return;
    const uint64_t all_ns = fastest_ns([&] { run(); });
    threads_ = 1;
    if (fastest_ns([&] { run(); }) > all_ns) threads_ = threads;
  }
  void run() override {
    for (uint32_t i = 0; i < times_; ++i)
      copy_bytes(to_.data(), from_.data(), from_.size(), threads_);
  }

 private:
  static constexpr size_t kSmallBytes = 1 << 20;

  const uint32_t times_;
  uint32_t threads_;
  std::vector<std::byte> from_, to_;
};

}  // namespace

Result<std::unique_ptr<Bare>> host_gemms(const Hardware& on, std::span<const GemmSize> gemms,
                                         const GemmOrder& order) {
  return std::make_unique<DnnlGemms>(on, gemms, order);
}

Result<std::unique_ptr<Bare>> host_chains(const Hardware& on, std::span<const GemmSize> gemms,
                                          const std::vector<GemmOrder>& chains) {
  return std::make_unique<DnnlChains>(on, gemms, chains);
}

Result<std::unique_ptr<Bare>> host_copy(const Hardware& on, size_t bytes, uint32_t times) {
  return std::make_unique<HostCopy>(bytes, times, on.threads);
}

void copy_bytes(void* to, const void* from, size_t bytes, uint32_t threads) {
  kernels::host::parallel_rows({.num_threads = threads}, static_cast<uint32_t>(bytes), 4096,
                               [&](uint32_t begin, uint32_t end) {
                                 std::memcpy(static_cast<std::byte*>(to) + begin,
                                             static_cast<const std::byte*>(from) + begin,
                                             end - begin);
                               });
}

}  // namespace itif::bench
