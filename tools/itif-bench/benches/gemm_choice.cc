// itif-bench gemm-choice: the GEMMs of several tenants of BERT-base, and of a step of Marian's
// decoder with beam 4. Modes: "sequential", each on all cores; "concurrent", each on one core;
// "chosen", the one of these that the GEMM scheduler chooses from a profile taken first. The limit
// is one GEMM with the same total of rows and one tenant's weights. Source: ITIF, sections 3.3.2
// and 4.2.1.
#include <fmt/format.h>

#include <cmath>

#include "backbone/family.h"
#include "base/random.h"
#include "benches.h"
#include "benches/gemm_choice_qkv.h"
#include "runtime/cost/gemm_scheduler.h"
#include "workload/costs.h"
#include "workload/devices.h"

namespace itif::bench {
namespace {

struct GemmCase {
  const char* name;
  uint32_t n, k;
  bool f32_out = false;
};
// The GEMM shapes of a backbone, and rows per tenant.
struct GemmCases {
  const char* preset;
  uint32_t max_step_rows;  // 0: not a decoder
  std::vector<GemmCase> shapes;
  std::vector<uint32_t> rows;
};
constexpr uint32_t kChoiceTenants[] = {2, 3, 4, 16};
constexpr uint32_t kMaxCount = 16;
constexpr uint32_t kQuickVocab = 8000;

std::vector<GemmCases> all_cases(bool quick) {
  return {
      {.preset = "bert-base",
       .max_step_rows = 0,
       .shapes = {{"qkv", 2304, 768}, {"out", 768, 768}, {"up", 3072, 768}, {"down", 768, 3072}},
       .rows = {1, 8, 32, 64, 128}},
      {.preset = "marian",
       .max_step_rows = 128,
       .shapes = {{"step's qkv", 1536, 512},
                  {"step's out", 512, 512},
                  {"step's up", 2048, 512},
                  {"step's down", 512, 2048},
                  {"step's vocabulary", quick ? kQuickVocab : 58101, 512, true}},
       .rows = {4}}};
}

class TenantGemms {
 public:
  static Result<TenantGemms> make(device::Device& device, const GemmCase& shape, uint32_t count,
                                  uint32_t rows) {
    TenantGemms gemms;
    gemms.shape_ = {.n = shape.n, .k = shape.k, .f32_out = shape.f32_out};
    gemms.total_ = count * rows;
    Random random(1);
    const auto floats = [&](size_t size, double scale) {
      std::vector<float> values(size);
      for (float& v : values) v = static_cast<float>(random.normal() * scale);
      return values;
    };
    const DType type = device.info().compute.activations;
    const size_t element = dtype_bytes(type);
    const size_t held = size_t{gemms.total_} + device.row_slack();
    ITIF_ASSIGN(const size_t packed, device.packed_bytes(gemms.shape_));
    gemms.stride_ = (packed + 4095) / 4096 * 4096;
    ITIF_ASSIGN(gemms.weights_, device.allocate(count * gemms.stride_));
    ITIF_ASSIGN(gemms.bias_, device.allocate(shape.n * sizeof(float)));
    ITIF_ASSIGN(gemms.a_, device.allocate(held * shape.k * element));
    ITIF_ASSIGN(gemms.out_,
                device.allocate(held * shape.n * dtype_bytes(gemms.type_of_output(type))));
    const std::vector<float> a = floats(size_t{gemms.total_} * shape.k, 1);
    ITIF_TRY(device.upload(view(a, {gemms.total_, shape.k}), type, gemms.a_->data()));
    for (uint32_t slot = 0; slot < count; ++slot) {
      const std::vector<float> weight = floats(size_t{shape.n} * shape.k, 1 / std::sqrt(shape.k));
      const TensorView weights = view(weight, {shape.n, shape.k});
      std::byte* const at = gemms.weights_->data() + slot * gemms.stride_;
      ITIF_TRY(device.pack(gemms.shape_, {&weights, 1}, at));
      const std::vector<float> zeros(shape.n);
      const TensorView bias = view(zeros, {shape.n});
      ITIF_TRY(device.pack_bias(gemms.shape_, {&bias, 1}, at));
      gemms.ranges_.push_back({.first_row = slot * rows, .num_rows = rows, .slot = slot});
    }
    gemms.merged_ = {.first_row = 0, .num_rows = gemms.total_, .slot = 0};
    ITIF_ASSIGN(gemms.prepared_, device.prepare(gemms.shape_, gemms.total_));
    return gemms;
  }

  std::span<const kernels::RowRange> ranges() const { return ranges_; }
  kernels::GroupedGemm tenants(kernels::GemmMode mode) const { return arguments(ranges_, mode); }
  kernels::GroupedGemm merged() const {
    return arguments({&merged_, 1}, kernels::GemmMode::kSequential);
  }
  Result<std::vector<float>> output(device::Device& device, device::Stream& stream,
                                    const kernels::GroupedGemm& args) const {
    stream.launch(args);
    const DType type = type_of_output(device.info().compute.activations);
    const uint64_t count = uint64_t{total_} * shape_.n;
    std::vector<std::byte> raw(count * dtype_bytes(type));
    stream.copy_to_host(out_->data(), raw.size(), raw.data());
    ITIF_TRY(stream.synchronize());
    std::vector<float> values(count);
    TensorView{raw.data(), type, {count}}.to_f32(values.data());
    return values;
  }

 private:
  static TensorView view(const std::vector<float>& values, const Shape& shape) {
    return {reinterpret_cast<const std::byte*>(values.data()), DType::kF32, shape};
  }
  kernels::GroupedGemm arguments(std::span<const kernels::RowRange> ranges,
                                 kernels::GemmMode mode) const {
    return {.a = a_->data(),
            .weights = {.base = weights_->data(), .stride_bytes = stride_},
            .bias = {.base = bias_->data(), .stride_bytes = 0},
            .out = out_->data(),
            .n = shape_.n,
            .k = shape_.k,
            .ranges = ranges,
            .schedule = mode,
            .prepared = prepared_.get(),
            .f32_out = shape_.f32_out};
  }
  DType type_of_output(DType compute) const { return shape_.f32_out ? DType::kF32 : compute; }

  device::GemmShape shape_;
  uint32_t total_ = 0;
  size_t stride_ = 0;
  std::unique_ptr<device::Buffer> weights_, bias_, a_, out_;
  device::GemmHandle prepared_;
  std::vector<kernels::RowRange> ranges_;
  kernels::RowRange merged_;
};

Status check_same(const std::string& name, const std::vector<float>& a, const std::vector<float>& b,
                  DType type) {
  const float tolerance = type == DType::kF32 ? 1e-4f : 0.03f;
  for (size_t i = 0; i < a.size(); ++i)
    if (!(std::abs(a[i] - b[i]) <= tolerance * std::max(1.0f, std::abs(a[i]))))
      return fail(Code::kInternal,
                  fmt::format("{}: element {} is {} sequentially and {} concurrently", name, i,
                              a[i], b[i]));
  return {};
}

Status run_case(const BenchOptions& options, device::Device& device, device::Stream& stream,
                runtime::GemmScheduler& scheduler, const GemmCase& shape, uint32_t count,
                uint32_t rows, const std::string& name, Report& report) {
  using enum kernels::GemmMode;
  ITIF_ASSIGN(const TenantGemms gemms, TenantGemms::make(device, shape, count, rows));
  ITIF_ASSIGN(const auto sequential, gemms.output(device, stream, gemms.tenants(kSequential)));
  ITIF_ASSIGN(const auto concurrent, gemms.output(device, stream, gemms.tenants(kConcurrent)));
  ITIF_TRY(check_same(name, sequential, concurrent, device.info().compute.activations));
  std::vector<std::function<void()>> runs;
  for (const auto& args : {gemms.tenants(kSequential), gemms.tenants(kConcurrent), gemms.merged()})
    runs.push_back([&stream, args] { stream.launch(args); });
  ITIF_ASSIGN(const auto samples,
              measure_short(stream, hardware_of(device.info()), runs, {},
                            options.quick ? Effort{.seconds = 0.02, .least = 5}
                                          : Effort{.seconds = 0.5, .least = 9}));
  const size_t chosen =
      scheduler.choose(gemms.ranges()).mode_of(shape.n, shape.k) == kConcurrent ? 1 : 0;
  const char* modes[] = {"sequential", "concurrent"};
  const auto add = [&](const std::string& mode, const Samples& measured) {
    report.add({.name = name,
                .mode = mode,
                .value = measured.median() * 1e-3,
                .unit = "us",
                .spread = measured.spread(),
                .limit = samples[2].median() * 1e-3,
                .ratio = measured.median() / samples[2].median()});
  };
  for (const size_t mode : {0, 1}) add(modes[mode], samples[mode]);
  add(fmt::format("chosen: {}", modes[chosen]), samples[chosen]);
  return {};
}

// Schedules by costs profiled as a group of the backbone profiles them, not by the measurements of
// this bench.
Status use_costs(const BenchOptions& options, device::Device& device, device::Stream& stream,
                 const GemmCases& cases, runtime::GemmScheduler& scheduler) {
  model::BackboneSpec spec = backbone::find_preset(cases.preset).value()->spec;
  if (cases.max_step_rows != 0 && options.quick) spec.vocab = kQuickVocab;
  ITIF_ASSIGN(auto costs, measure_costs(device, stream, spec, backbone::FusionMode::kFused,
                                        {.max_rows = options.quick ? 512u : 2048u,
                                         .max_step_rows = cases.max_step_rows,
                                         .max_length = 128,
                                         .max_requests = 64,
                                         .max_tenants = kMaxCount,
                                         .samples = options.quick ? 1u : 5u}));
  scheduler.set_costs(std::move(costs));
  return {};
}

Status run_backbone(const BenchOptions& options, device::Device& device, device::Stream& stream,
                    const GemmCases& cases, const std::string& dtype, Report& report) {
  runtime::GemmScheduler scheduler(device.info().num_threads, kMaxCount, 1 << 14);
  bool profiled = false;
  for (const GemmCase& shape : cases.shapes)
    for (const uint32_t count : kChoiceTenants)
      for (const uint32_t rows : cases.rows) {
        const std::string name =
            fmt::format("{}, {} tenants x {} rows, {}", shape.name, count, rows, dtype);
        if (!options.wants_any({name, shape.name})) continue;
        if (!profiled) ITIF_TRY(use_costs(options, device, stream, cases, scheduler));
        profiled = true;
        ITIF_TRY(run_case(options, device, stream, scheduler, shape, count, rows, name, report));
      }
  return {};
}

Status compare_dtype(const BenchOptions& options, device::Device& device, const std::string& dtype,
                     Report& report) {
  ITIF_ASSIGN(const auto stream, device.make_stream());
  stream->attach_thread();
  for (const GemmCases& cases : all_cases(options.quick))
    ITIF_TRY(run_backbone(options, device, *stream, cases, dtype, report));
  return qkv_choice_rows(options, device, *stream, dtype, report);
}

}  // namespace

Status bench_gemm_choice(const BenchOptions& options, Report& report) {
  return on_each_device(options, report, [&](device::Device& device, const std::string& dtype) {
    return compare_dtype(options, device, dtype, report);
  });
}

}  // namespace itif::bench
