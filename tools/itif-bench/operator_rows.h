// Rows of itif-bench operators: buffers of random activations, and an operator against what bounds it.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bare.h"
#include "benches.h"
#include "device/device.h"

namespace itif::bench {

// BERT-base's sizes.
inline constexpr uint32_t kHidden = 768, kHeads = 12, kIntermediate = 3072, kVocab = 30522;

// Of one device, in one type.
class OperatorRows {
 public:
  static Result<std::unique_ptr<OperatorRows>> make(const BenchOptions& options, std::string dtype,
                                                    device::Device& device, Report& report);

  device::Device& device() const { return device_; }
  device::Stream& stream() const { return *stream_; }
  // Of a device like this one whose attention is cuDNN's; nullptr: there is none.
  device::Stream* cudnn_stream() const { return cudnn_stream_.get(); }
  bool is_gpu() const { return on_.is_gpu; }
  DType type() const { return on_.type; }
  // Of results that are rounded to the type.
  double tolerance() const { return type() == DType::kF32 ? 1e-5 : 0.01; }
  // Seeded numbers in [-2, 2); freed with the rows.
  Result<void*> random_buffer(size_t elements, DType type);
  // On the device.
  Result<const int32_t*> ids(const std::vector<uint32_t>& ids);
  // What must hold of an operator's results after a launch.
  using Check = std::function<Status(const std::string& title)>;
  // Against a copy of as many bytes. bytes: read and written together.
  Status memory_bound(const std::string& title, size_t bytes, const std::function<void()>& launch,
                      const Check& check);
  // An operator that overwrites what it reads: `changed`, of `bytes`, is `source` before the launch that is checked.
  // Host: before every launch, for repeated the values would shrink to zero or grow without bound; the copy is
  // timed, and bounded, with it.
  struct Changed {
    void* changed;
    const void* source;
    size_t bytes;
  };
  Status in_place(const std::string& title, size_t bytes, const Changed& of,
                  const std::function<void()>& launch, const Check& check);
  // An operator that reads `bytes` of the host's memory. GPU: against copies of as many over the bus.
  Status from_host(const std::string& title, size_t bytes_read, size_t bytes_written,
                   const std::function<void()>& launch, const Check& check);
  // Against a GEMM's rate. on: the stream that it launches on, if not stream().
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

// A slab of which every slot is the same.
inline kernels::Slab shared_slab(void* data) {
  return {.base = static_cast<std::byte*>(data), .stride_bytes = 0};
}

// Attention over segments of so many rows at most, and over segments of mixed lengths.
Status attention_rows(OperatorRows& rows, uint32_t tokens, uint32_t longest);
Status mixed_attention_rows(OperatorRows& rows, uint32_t tokens, uint32_t longest);
// The operators of images and of decoders.
Status image_and_decoder_rows(OperatorRows& rows);
// Tables 5.3 and 5.4: a forward pass of BERT-base in the thesis's form, by execution mode.
Status thesis_rows(const BenchOptions& options, const std::string& dtype, device::Device& device,
                   Report& report);
// Figure 5.5: "get Q, K, V" alone.
Status get_qkv_rows(const BenchOptions& options, const std::string& dtype, device::Device& device,
                    Report& report);

}  // namespace itif::bench
