// A log of launches to make later: kernels and library calls, each with its arguments by value.
// They are made in order on a stream, which may be capturing a graph.
//
// A graph of the launches keeps their grids and arguments. The log records every
// parameter of a launch, so that the graph's key has it without the caller's help (key()).
//
// CUDA loads a kernel at its first use, which may synchronise the device, and a capture does not
// survive that. load() therefore loads the code of launches that were never made.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <new>
#include <span>
#include <type_traits>
#include <vector>

namespace itif::kernels::cuda {

class LaunchLog {
 public:
  // Launches what add() stored.
  template <class T>
  using Make = cudaError_t (*)(const T& what, cudaStream_t stream);

  // `load` loads the launch's code without an effect on a batch; nullptr: there is none to load.
  template <class T>
  void add(Make<T> make, const T& what, Make<T> load = nullptr) {
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
               [](const Head& head, void (*call)(), cudaStream_t stream) {
                 const auto& entry = reinterpret_cast<const Entry&>(head);
                 return reinterpret_cast<Make<T>>(call)(entry.what, stream);
               },
               reinterpret_cast<void (*)()>(make), reinterpret_cast<void (*)()>(load)},
              what};
    ++size_;
  }
  // Adds to the key of the launches. REQUIRES: no padding, as in numbers and pointers.
  template <class T>
  void add_key(const T& value) {
    static_assert(std::is_arithmetic_v<T> || std::is_pointer_v<T>);
    const auto* bytes = reinterpret_cast<const std::byte*>(&value);
    key_.insert(key_.end(), bytes, bytes + sizeof value);
  }
  // Keeps the allocated memory.
  void clear() {
    bytes_.clear();
    key_.clear();
    size_ = 0;
  }
  // A position between two launches.
  struct Mark {
    size_t bytes = 0, size = 0, key_bytes = 0;
  };
  Mark end() const { return {bytes_.size(), size_, key_.size()}; }
  // Returns the bytes that add_key() added between two marks.
  std::span<const std::byte> key(Mark from, Mark to) const {
    return std::span(key_).subspan(from.key_bytes, to.key_bytes - from.key_bytes);
  }
  // Makes the launches between two marks and returns the first error. kGoOn continues after an
  // error, so that every fork is joined. kStop does not: after an invalidated capture, further
  // launches would run immediately.
  enum class After : bool { kGoOn, kStop };
  cudaError_t make(Mark from, Mark to, cudaStream_t stream, After error_is = After::kGoOn) const {
    cudaError_t first = cudaSuccess;
    for (size_t at = from.bytes; at < to.bytes;) {
      const auto& head = *reinterpret_cast<const Head*>(bytes_.data() + at);
      const cudaError_t error = head.call(head, head.make, stream);
      if (first == cudaSuccess) first = error;
      if (error != cudaSuccess && error_is == After::kStop) break;
      at += head.bytes;
    }
    return first;
  }
  // Loads the code of the launches between two marks. Returns the first error.
  cudaError_t load(Mark from, Mark to, cudaStream_t stream) const {
    cudaError_t first = cudaSuccess;
    for (size_t at = from.bytes; at < to.bytes;) {
      const auto& head = *reinterpret_cast<const Head*>(bytes_.data() + at);
      if (head.load != nullptr)
        if (const cudaError_t error = head.call(head, head.load, stream); first == cudaSuccess)
          first = error;
      at += head.bytes;
    }
    return first;
  }

 private:
  static constexpr size_t kAlignment = 16;
  struct alignas(kAlignment) Head {
    size_t bytes;
    cudaError_t (*call)(const Head&, void (*)(), cudaStream_t);
    void (*make)();
    void (*load)();
  };
  std::vector<std::byte> bytes_;  // entries are plain data: growth moves them as bytes
  std::vector<std::byte> key_;
  size_t size_ = 0;
};

}  // namespace itif::kernels::cuda
