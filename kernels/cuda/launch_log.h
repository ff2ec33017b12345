// A log of launches to make later: kernels and library calls, each with its arguments by value.
// They are made in order on a stream, which may be capturing a graph.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <new>
#include <type_traits>
#include <vector>

namespace itif::kernels::cuda {

class LaunchLog {
 public:
  // Launches what add() stored.
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
  // Keeps the allocated memory.
  void clear() {
    bytes_.clear();
    size_ = 0;
  }
  // A position between two launches.
  struct Mark {
    size_t bytes = 0, size = 0;
  };
  Mark end() const { return {bytes_.size(), size_}; }
  // Makes the launches between two marks and returns the first error. kGoOn continues after an
  // error, so that every fork is joined. kStop does not: after an invalidated capture, further
  // launches would run immediately.
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
  std::vector<std::byte> bytes_;  // entries are plain data: growth moves them as bytes
  size_t size_ = 0;
};

}  // namespace itif::kernels::cuda
