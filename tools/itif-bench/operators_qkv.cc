// Figure 5.5: the operator "get Q, K, V" alone, four tenants with four requests of 64 tokens each. SEQ runs
// three GEMMs a tenant in turn; multi-stream the same with a thread and stream a tenant at once, the CPUs
// divided among them; ITIF three GEMMs over all tenants; fused, one. Against the GEMMs run bare.
#include <fmt/format.h>

#include <algorithm>
#include <barrier>
#include <cmath>
#include <thread>

#include "bare_gemm.h"
#include "base/random.h"
#include "operator_checks.h"
#include "operator_rows.h"
#include "runtime/gemm_scheduler.h"

namespace itif::bench {
namespace {

constexpr uint32_t kTenants = 4, kRows = 4 * 64;  // of a tenant
constexpr uint32_t kColumns = 3 * kHidden;

// What all modes multiply, rounded to the type: tenant t's rows [kRows, kHidden] and weights
// [kColumns, kHidden].
struct Numbers {
  std::vector<float> a[kTenants], weights[kTenants];

  explicit Numbers(DType type) {
    Random random(5);
    const auto draw = [&](size_t count, double scale) {
      std::vector<float> values(count);
      for (float& v : values) {
        v = static_cast<float>((random.uniform() - 0.5) * scale);
        if (type == DType::kBF16) v = bf16_to_f32(f32_to_bf16(v));
      }
      return values;
    };
    for (uint32_t tenant = 0; tenant < kTenants; ++tenant) {
      a[tenant] = draw(size_t{kRows} * kHidden, 4);
      weights[tenant] = draw(size_t{kColumns} * kHidden, 0.1);
    }
  }
  std::vector<double> row_of(uint32_t tenant, uint32_t row) const {
    std::vector<double> out(kColumns);
    for (size_t n = 0; n < kColumns; ++n)
      for (size_t i = 0; i < kHidden; ++i)
        out[n] += double{a[tenant][row * kHidden + i]} * weights[tenant][n * kHidden + i];
    return out;
  }
};

TensorView view(const float* values, const Shape& shape) {
  return {reinterpret_cast<const std::byte*>(values), DType::kF32, shape};
}

// Consecutive tenants' rows and weights on a device, Q, K and V as three GEMMs or as one.
class Qkv {
 public:
  static Result<Qkv> make(device::Device& device, const Numbers& numbers, uint32_t parts,
                          uint32_t first_tenant, uint32_t tenants) {
    Qkv qkv;
    qkv.device_ = &device;
    qkv.first_tenant_ = first_tenant;
    qkv.shape_ = {.n = kColumns / parts, .k = kHidden, .has_bias = false};
    const DType type = device.info().compute;
    const size_t rows = size_t{tenants} * kRows, held = rows + device.row_slack();
    ITIF_ASSIGN(qkv.prepared_, device.prepare(qkv.shape_, static_cast<uint32_t>(rows)));
    ITIF_ASSIGN(const size_t packed, device.packed_bytes(qkv.shape_));
    qkv.stride_ = (packed + 4095) / 4096 * 4096;
    ITIF_ASSIGN(qkv.a_, device.allocate(held * kHidden * dtype_bytes(type)));
    for (uint32_t part = 0; part < parts; ++part) {
      ITIF_ASSIGN(auto weights, device.allocate(tenants * qkv.stride_));
      ITIF_ASSIGN(auto out, device.allocate(held * qkv.shape_.n * dtype_bytes(type)));
      for (uint32_t slot = 0; slot < tenants; ++slot) {
        const TensorView weight = view(
            numbers.weights[first_tenant + slot].data() + size_t{part} * qkv.shape_.n * kHidden,
            {qkv.shape_.n, kHidden});
        ITIF_TRY(device.pack(qkv.shape_, {&weight, 1}, weights->data() + slot * qkv.stride_));
      }
      qkv.weights_.push_back(std::move(weights));
      qkv.out_.push_back(std::move(out));
    }
    for (uint32_t slot = 0; slot < tenants; ++slot) {
      qkv.ranges_.push_back({slot * kRows, kRows, slot});
      ITIF_TRY(device.upload(view(numbers.a[first_tenant + slot].data(), {kRows, kHidden}), type,
                             qkv.a_->data() + size_t{slot} * kRows * kHidden * dtype_bytes(type)));
    }
    return qkv;
  }

  std::span<const kernels::RowRange> ranges() const { return ranges_; }
  void launch(device::Stream& stream, std::span<const kernels::RowRange> ranges,
              kernels::GemmMode mode) const {
    for (size_t part = 0; part < out_.size(); ++part)
      stream.gemm({.a = a_->data(),
                   .weights = {weights_[part]->data(), stride_},
                   .bias = {},
                   .out = out_[part]->data(),
                   .n = shape_.n,
                   .k = shape_.k,
                   .ranges = ranges,
                   .mode = mode,
                   .prepared = prepared_.get()});
  }
  // Of a launch over all ranges, complete.
  Status check(const Numbers& numbers, const std::string& name) const {
    const DType type = device_->info().compute;
    const size_t rows = ranges_.size() * kRows;
    for (size_t part = 0; part < out_.size(); ++part) {
      const auto got = read_values(*device_, out_[part]->data(), rows * shape_.n, type);
      ITIF_TRY(check_rows(name, got, static_cast<uint32_t>(rows), shape_.n,
                          type == DType::kBF16 ? 0.01 : 1e-4, [&](uint32_t row) {
                            const auto all =
                                numbers.row_of(first_tenant_ + row / kRows, row % kRows);
                            const auto begin =
                                all.begin() + static_cast<ptrdiff_t>(part) * shape_.n;
                            return std::vector<double>(begin, begin + shape_.n);
                          }));
    }
    return {};
  }

 private:
  device::Device* device_ = nullptr;
  uint32_t first_tenant_ = 0;
  device::GemmShape shape_;
  device::GemmHandle prepared_;
  size_t stride_ = 0;
  std::unique_ptr<device::Buffer> a_;
  std::vector<std::unique_ptr<device::Buffer>> weights_, out_;  // by part
  std::vector<kernels::RowRange> ranges_;
};

// A thread and stream a tenant; run() is all of them once.
class Streams {
 public:
  ~Streams() {
    if (threads_.empty()) return;
    is_ending_ = true;
    turn_.arrive_and_wait();
    for (std::thread& thread : threads_) thread.join();
  }
  Status start(device::Device& device, const Numbers& numbers) {
    for (uint32_t tenant = 0; tenant < kTenants; ++tenant) {
      ITIF_ASSIGN(Qkv qkv, Qkv::make(device, numbers, 3, tenant, 1));
      tenants_.push_back(std::move(qkv));
      ITIF_ASSIGN(auto stream, device.make_stream());
      streams_.push_back(std::move(stream));
    }
    for (uint32_t tenant = 0; tenant < kTenants; ++tenant)
      threads_.emplace_back([this, tenant] {
        streams_[tenant]->attach_thread();
        for (;;) {
          turn_.arrive_and_wait();
          if (is_ending_) return;
          tenants_[tenant].launch(*streams_[tenant], tenants_[tenant].ranges(),
                                  kernels::GemmMode::kInTurn);
          turn_.arrive_and_wait();
        }
      });
    return {};
  }
  void run() {
    turn_.arrive_and_wait();
    turn_.arrive_and_wait();
  }
  Status check(const Numbers& numbers, const std::string& name) {
    for (size_t tenant = 0; tenant < kTenants; ++tenant) {
      ITIF_TRY(streams_[tenant]->synchronize());
      ITIF_TRY(tenants_[tenant].check(numbers, name));
    }
    return {};
  }

 private:
  std::vector<Qkv> tenants_;
  std::vector<std::unique_ptr<device::Stream>> streams_;
  std::vector<std::thread> threads_;
  bool is_ending_ = false;
  std::barrier<> turn_{kTenants + 1};
};

}  // namespace

Status get_qkv_rows(const BenchOptions& options, const std::string& dtype, device::Device& device,
                    Report& report) {
  const std::string name = "get Q/K/V, " + dtype;
  if (!options.wants(name)) return {};
  const DType type = device.info().compute;
  const uint32_t threads = device.info().num_threads;
  const Numbers numbers(type);
  ITIF_ASSIGN(const auto stream, device.make_stream());
  stream->attach_thread();
  ITIF_ASSIGN(const Qkv three, Qkv::make(device, numbers, 3, 0, kTenants));
  ITIF_ASSIGN(const Qkv one, Qkv::make(device, numbers, 1, 0, kTenants));
  ITIF_ASSIGN(
      const auto small_device,
      device::open_device(
          {.kind = "host", .dtype = dtype, .num_threads = std::max(1u, threads / kTenants)}));
  Streams streams;
  ITIF_TRY(streams.start(*small_device, numbers));
  runtime::GemmScheduler scheduler(threads, kTenants, kTenants * kRows);
  const kernels::GemmMode mode = scheduler.choose(three.ranges()).of(kColumns, kHidden);
  std::vector<std::unique_ptr<BareGemm>> bare;
  for (uint32_t tenant = 0; tenant < kTenants; ++tenant)
    bare.push_back(make_bare_gemm(type, kRows, kColumns, kHidden, threads));

  const char* const names[] = {"seq", "multi-stream", "itif", "itif fused"};
  const std::vector<std::function<void()>> runs = {
      [&] {
        for (const kernels::RowRange& range : three.ranges())
          three.launch(*stream, {&range, 1}, kernels::GemmMode::kInTurn);
      },
      [&] { streams.run(); }, [&] { three.launch(*stream, three.ranges(), mode); },
      [&] { one.launch(*stream, one.ranges(), mode); },
      [&] {
        for (const auto& gemm : bare) gemm->run();
      }};
  for (size_t i = 0; i < std::size(names); ++i) {
    runs[i]();
    ITIF_TRY(stream->synchronize());
    ITIF_TRY(i == 1   ? streams.check(numbers, names[i])
             : i == 3 ? one.check(numbers, names[i])
                      : three.check(numbers, names[i]));
  }
  const auto samples = measure(runs, options.effort());
  ITIF_TRY(stream->synchronize());
  const double limit = samples.back().median() * 1e-6;
  for (size_t i = 0; i < std::size(names); ++i)
    report.add({.name = name,
                .mode = names[i],
                .value = samples[i].median() * 1e-6,
                .unit = "ms",
                .spread = samples[i].spread(),
                .limit = limit,
                .ratio = samples[i].median() * 1e-6 / limit});
  return {};
}

}  // namespace itif::bench
