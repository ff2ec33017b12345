// Launches that wait to be made: kernels and what libraries do, each with its arguments by value. They are made one
// after another on a stream, which may be capturing a graph.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <new>
#include <type_traits>
#include <vector>

namespace itif::kernels::cuda {

class LaunchLog {
 public:
  // Makes a launch of what add() was given.
  template <class T>
  using Make = cudaError_t (*)(const T& what, cudaStream_t stream);

  template <class T>
  void add(Make<T> make, const T& what) {
    static_assert(std::is_trivially_destructible_v<T> && alignof(T) <= kAlignment);
    struct Entry {
      Head head;
      T what;
    };
    constexpr size_t kBytes = (sizeof(Entry) + kAlignment - 1) / kAlignment * kAlignment;
    const size_t at = bytes_.size();
    bytes_.resize(at + kBytes);
    new (bytes_.data() + at)
        Entry{{kBytes,
               [](const Head& head, cudaStream_t stream) {
                 const auto& entry = reinterpret_cast<const Entry&>(head);
                 return reinterpret_cast<Make<T>>(head.make)(entry.what, stream);
               },
               reinterpret_cast<void (*)()>(make)},
              what};
    ++size_;
  }
  // Keeps the memory.
  void clear() {
    bytes_.clear();
    size_ = 0;
  }
  // A place between two launches.
  struct Mark {
    size_t bytes = 0, size = 0;
  };
  Mark end() const { return {bytes_.size(), size_}; }
  // Those from a mark to another. Returns the first error: the others are made all the same, so that what a launch
  // forks another joins, or none is (a capture that is spoilt, in which what follows would run at once).
  enum class After : bool { kGoOn, kStop };
  cudaError_t make(Mark from, Mark to, cudaStream_t stream, After error_is = After::kGoOn) const {
    cudaError_t first = cudaSuccess;
    for (size_t at = from.bytes; at < to.bytes;) {
      const auto& head = *reinterpret_cast<const Head*>(bytes_.data() + at);
      const cudaError_t error = head.run(head, stream);
      if (first == cudaSuccess) first = error;
      if (error != cudaSuccess && error_is == After::kStop) break;
      at += head.bytes;
    }
    return first;
  }

 private:
  static constexpr size_t kAlignment = 16;
  struct alignas(kAlignment) Head {
    size_t bytes;
    cudaError_t (*run)(const Head&, cudaStream_t);
    void (*make)();
  };
  std::vector<std::byte> bytes_;  // moved as bytes where it grows: what is added is plain
  size_t size_ = 0;
};

}  // namespace itif::kernels::cuda
