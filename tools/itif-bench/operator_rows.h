// Rows of itif-bench operators: buffers of random activations, and an operator against what bounds it.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "benches.h"
#include "device/device.h"

namespace itif::bench {

// BERT-base's sizes.
inline constexpr uint32_t kHidden = 768, kHeads = 12, kIntermediate = 3072, kVocab = 30522;

// Of one device, in one type.
class OperatorRows {
 public:
  OperatorRows(const BenchOptions& options, std::string dtype, device::Device& device,
               Report& report)
      : options_(options), dtype_(std::move(dtype)), device_(device), report_(report) {}

  device::Device& device() const { return device_; }
  DType type() const { return device_.info().compute; }
  // Seeded numbers in [-2, 2); freed with the rows.
  Result<void*> random_buffer(size_t elements, DType type);
  // What must hold of an operator's results after a launch.
  using Check = std::function<Status(const std::string& title)>;
  // Against a copy of as many bytes. bytes: read and written together.
  Status memory_bound(const std::string& title, size_t bytes, const std::function<void()>& launch,
                      const Check& check);
  // Against a GEMM's rate.
  Status compute_bound(const std::string& title, double flop, const std::function<void()>& launch,
                       const Check& check);

 private:
  Status add(const std::string& title, const std::function<void()>& launch,
             const std::function<void()>& limit, double limit_times);

  const BenchOptions& options_;
  const std::string dtype_;
  device::Device& device_;
  Report& report_;
  std::vector<std::unique_ptr<device::Buffer>> buffers_;
};

// A slab of which every slot is the same.
inline kernels::Slab shared_slab(void* data) {
  return {.base = static_cast<std::byte*>(data), .stride_bytes = 0};
}

// On so many threads.
void copy_bytes(void* to, const void* from, size_t bytes, uint32_t threads);
// Such a copy that reads half of `bytes` and writes the other half.
std::function<void()> copy_of(size_t bytes, uint32_t threads);

// The operators of images and of decoders.
Status image_and_decoder_rows(OperatorRows& rows);
// Tables 5.3 and 5.4: a forward pass of BERT-base in the thesis's form, by execution mode.
Status thesis_rows(const BenchOptions& options, const std::string& dtype, device::Device& device,
                   Report& report);
// Figure 5.5: "get Q, K, V" alone.
Status get_qkv_rows(const BenchOptions& options, const std::string& dtype, device::Device& device,
                    Report& report);

}  // namespace itif::bench
