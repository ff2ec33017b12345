// Rows of itif-bench operators: buffers of random activations, and each operator against its limit.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "benches.h"
#include "device/device.h"
#include "limits/bare.h"

namespace itif::bench {

// BERT-base's sizes.
inline constexpr uint32_t kHidden = 768, kHeads = 12, kIntermediate = 3072, kVocab = 30522;

// Measures operators on one device in one element type.
class OperatorRows {
 public:
  static Result<std::unique_ptr<OperatorRows>> make(const BenchOptions& options, std::string dtype,
                                                    device::Device& device, Report& report);

  device::Device& device() const { return device_; }
  device::Stream& stream() const { return *stream_; }
  // A stream of the same device with cuDNN's attention; nullptr if cuDNN is unavailable.
  device::Stream* cudnn_stream() const { return cudnn_stream_.get(); }
  bool is_gpu() const { return on_.is_gpu; }
  DType type() const { return on_.compute.activations; }
  // Tolerance of results that are rounded to the type.
  double tolerance() const { return type() == DType::kF32 ? 1e-5 : 0.01; }
  // Seeded numbers in [-2, 2); freed with the rows.
  Result<void*> random_buffer(size_t elements, DType type);
  // Copies ids to the device.
  Result<const int32_t*> ids(const std::vector<uint32_t>& ids);
  // Checks an operator's results after a launch.
  using Check = std::function<Status(const std::string& title)>;
  // Compares the operator with a copy of the same size. bytes: read and written, summed.
  Status memory_bound(const std::string& title, size_t bytes, const std::function<void()>& launch,
                      const Check& check);
  // For an operator that overwrites its input: `changed` [bytes] is reset to `source` before the
  // checked launch. A host resets it before every launch, because repeated values would shrink to
  // zero or grow without bound. The reset is then part of the measured time and of the limit.
  struct Changed {
    void* changed;
    const void* source;
    size_t bytes;
  };
  Status in_place(const std::string& title, size_t bytes, const Changed& region,
                  const std::function<void()>& launch, const Check& check);
  // Compares an operator that reads host memory with a copy of bytes_read; on a GPU the copy
  // crosses the bus.
  Status from_host(const std::string& title, size_t bytes_read, size_t bytes_written,
                   const std::function<void()>& launch, const Check& check);
  // Compares the operator with the rate of a GEMM. `on`: the stream of `launch`; nullptr: stream().
  Status compute_bound(const std::string& title, double flop, const std::function<void()>& launch,
                       const Check& check, device::Stream* on = nullptr);

 private:
  OperatorRows(const BenchOptions& options, std::string dtype, device::Device& device,
               Report& report)
      : options_(options),
        dtype_(std::move(dtype)),
        device_(device),
        on_(hardware_of(device.info())),
        report_(report) {}
  Status add(const std::string& title, const std::function<void()>& launch, Bare& limit,
             double limit_times, device::Stream& on);
  Status launch_once(const std::function<void()>& launch, device::Stream& on);
  Status open_cudnn();

  const BenchOptions& options_;
  const std::string dtype_;
  device::Device& device_;
  const Hardware on_;
  Report& report_;
  std::unique_ptr<device::Stream> stream_;
  std::unique_ptr<device::Device> cudnn_device_;
  std::unique_ptr<device::Stream> cudnn_stream_;
  std::vector<std::unique_ptr<device::Buffer>> buffers_;
};

// A slab whose slots all share the same data.
inline kernels::Slab shared_slab(void* data) {
  return {.base = static_cast<std::byte*>(data), .stride_bytes = 0};
}

// Attention over `tokens` rows in segments of `longest` rows, and in segments of mixed lengths up
// to `longest`.
Status attention_rows(OperatorRows& rows, uint32_t tokens, uint32_t longest);
Status mixed_attention_rows(OperatorRows& rows, uint32_t tokens, uint32_t longest);
// The operators of images and of decoders.
Status image_and_decoder_rows(OperatorRows& rows);
// Tables 5.3 and 5.4: a forward pass of BERT-base in fusion mode "thesis", by execution mode.
Status thesis_rows(const BenchOptions& options, const std::string& dtype, device::Device& device,
                   Report& report);
// Figure 5.5: the operator "get Q, K, V".
Status get_qkv_rows(const BenchOptions& options, const std::string& dtype, device::Device& device,
                    Report& report);

}  // namespace itif::bench
