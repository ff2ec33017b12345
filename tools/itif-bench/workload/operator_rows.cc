#include "workload/operator_rows.h"

#include <fmt/format.h>

#include "base/random.h"
#include "limits/bare_parts.h"
#include "workload/devices.h"

namespace itif::bench {
namespace {

// The GEMM whose rate is the limit of compute-bound operators.
constexpr GemmSize kHostGemm{128, kHidden, kHidden}, kGpuGemm{8192, kIntermediate, kHidden};

}  // namespace

Result<std::unique_ptr<OperatorRows>> OperatorRows::make(const BenchOptions& options,
                                                         std::string dtype, device::Device& device,
                                                         Report& report) {
  std::unique_ptr<OperatorRows> rows(new OperatorRows(options, std::move(dtype), device, report));
  ITIF_ASSIGN(rows->stream_, device.make_stream());
  rows->stream_->attach_thread();
  if (rows->is_gpu() && options.attention == "itif")
    if (Status opened = rows->open_cudnn(); !opened) {
      rows->cudnn_stream_.reset();
      report.note(fmt::format("skipped attention by cuDNN in {}: {}", rows->dtype_,
                              opened.error().message));
    }
  return rows;
}

Status OperatorRows::open_cudnn() {
  ITIF_ASSIGN(cudnn_device_,
              device::open_device({.kind = "cuda", .dtype = dtype_, .attention = "cudnn-only"}));
  ITIF_ASSIGN(cudnn_stream_, cudnn_device_->make_stream());
  cudnn_stream_->attach_thread();
  // Runs it once: cuDNN's libraries may be missing or of another version.
  ITIF_ASSIGN(void* const qkv, random_buffer(3 * kHidden, type()));
  ITIF_ASSIGN(void* const out, random_buffer(kHidden, type()));
  const kernels::SegmentRows one{.first_row = 0, .num_rows = 1};
  cudnn_stream_->launch(kernels::Attention{.qkv = qkv,
                                           .out = out,
                                           .segments = {&one, 1},
                                           .num_heads = kHeads,
                                           .head_size = kHidden / kHeads,
                                           .scale = 1});
  return run_to_end(*cudnn_stream_);
}

Result<void*> OperatorRows::random_buffer(size_t elements, DType type) {
  Random random(elements);
  std::vector<float> values(elements);
  for (float& v : values) v = static_cast<float>(random.uniform() * 4 - 2);
  ITIF_ASSIGN(auto buffer, device_.allocate(elements * dtype_bytes(type)));
  ITIF_TRY(
      device_.upload({reinterpret_cast<const std::byte*>(values.data()), DType::kF32, {elements}},
                     type, buffer->data()));
  buffers_.push_back(std::move(buffer));
  return buffers_.back()->data();
}

Result<const int32_t*> OperatorRows::ids(const std::vector<uint32_t>& ids) {
  ITIF_ASSIGN(auto buffer, device_.allocate(ids.size() * sizeof(int32_t)));
  auto* const on_device = reinterpret_cast<int32_t*>(buffer->data());
  buffers_.push_back(std::move(buffer));
  const kernels::IdPiece piece{.data = reinterpret_cast<const std::byte*>(ids.data()),
                               .num_ids = static_cast<uint32_t>(ids.size()),
                               .first_row = 0,
                               .id_bytes = 4};
  stream_->launch(
      kernels::GatherIds{.pieces = {&piece, 1}, .ids = on_device, .vocab_size = UINT32_MAX});
  ITIF_TRY(run_to_end(*stream_));
  return on_device;
}

Status OperatorRows::launch_once(const std::function<void()>& launch, device::Stream& on) {
  launch();
  return run_to_end(on);
}

Status OperatorRows::add(const std::string& title, const std::function<void()>& launch, Bare& limit,
                         double limit_times, device::Stream& on) {
  ITIF_ASSIGN(const auto samples, measure_short(on, on_, {launch}, {&limit}, options_.effort()));
  const double limit_ns = samples[1].median() * limit_times;
  report_.add({.name = title,
               .mode = dtype_,
               .value = samples[0].median() * 1e-3,
               .unit = "us",
               .spread = samples[0].spread(),
               .limit = limit_ns * 1e-3,
               .ratio = samples[0].median() / limit_ns});
  return {};
}

Status OperatorRows::memory_bound(const std::string& title, size_t bytes,
                                  const std::function<void()>& launch, const Check& check) {
  if (!options_.wants(title)) return {};
  ITIF_TRY(launch_once(launch, *stream_));
  ITIF_TRY(check(title));
  ITIF_ASSIGN(const auto copy, bare_copy(on_, bytes, short_repeats(on_)));
  return add(title, launch, *copy, 1, *stream_);
}

Status OperatorRows::in_place(const std::string& title, size_t bytes, const Changed& region,
                              const std::function<void()>& launch, const Check& check) {
  if (!on_.is_gpu)
    return memory_bound(
        title + " + copy", bytes + 2 * region.bytes,
        [&] {
          copy_bytes(region.changed, region.source, region.bytes, on_.threads);
          launch();
        },
        check);
  if (!options_.wants(title)) return {};
  std::vector<std::byte> fresh(region.bytes);
  device_.download(region.source, region.bytes, fresh.data());
  ITIF_TRY(device_.upload({fresh.data(), DType::kF32, {region.bytes / sizeof(float)}}, DType::kF32,
                          region.changed));
  ITIF_TRY(launch_once(launch, *stream_));
  ITIF_TRY(check(title));
  ITIF_ASSIGN(const auto copy, bare_copy(on_, bytes, short_repeats(on_)));
  return add(title, launch, *copy, 1, *stream_);
}

Status OperatorRows::from_host(const std::string& title, size_t bytes_read, size_t bytes_written,
                               const std::function<void()>& launch, const Check& check) {
  if (!on_.is_gpu) return memory_bound(title, bytes_read + bytes_written, launch, check);
  if (!options_.wants(title)) return {};
  ITIF_TRY(launch_once(launch, *stream_));
  ITIF_TRY(check(title));
  ITIF_ASSIGN(const auto upload, bare_upload(on_, 2 * bytes_read, short_repeats(on_)));
  return add(title, launch, *upload, 1, *stream_);
}

Status OperatorRows::compute_bound(const std::string& title, double flop,
                                   const std::function<void()>& launch, const Check& check,
                                   device::Stream* on) {
  device::Stream& stream = on == nullptr ? *stream_ : *on;
  if (!options_.wants(title)) return {};
  ITIF_TRY(launch_once(launch, stream));
  ITIF_TRY(check(title));
  const GemmSize size = on_.is_gpu ? kGpuGemm : kHostGemm;
  ITIF_ASSIGN(const auto gemm, bare_gemms(on_, {&size, 1}, GemmOrder(short_repeats(on_), {0})));
  return add(title, launch, *gemm, flop / (2.0 * size.rows * size.n * size.k), stream);
}

}  // namespace itif::bench
