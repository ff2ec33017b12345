#include "device/cuda/gemm.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "device/cuda/error.h"

namespace itif::device::cuda {
namespace {

constexpr size_t kWorkspaceBytes = size_t{32} << 20;  // what cuBLAS recommends on Hopper
constexpr const char* kWhat = "a GEMM failed";
constexpr float kOne = 1, kZero = 0;

cudaDataType type_of(DType type) {
  switch (type) {
    case DType::kBF16: return CUDA_R_16BF;
    case DType::kF16: return CUDA_R_16F;
    default: return CUDA_R_32F;
  }
}
int to_int(size_t value) {
  CHECK(value <= INT32_MAX);
  return static_cast<int>(value);
}
Status check_prepared(const kernels::GroupedGemm& args) {
  const auto* prepared = static_cast<const PreparedShape*>(args.prepared);
  if (prepared != nullptr && prepared->shape.n == args.n && prepared->shape.k == args.k &&
      prepared->shape.has_bias == (args.bias.base != nullptr) &&
      prepared->shape.f32_out == args.f32_out)
    return {};
  return fail(Code::kInternal, fmt::format("a GEMM of {} × {}{} was not prepared", args.n, args.k,
                                           args.bias.base != nullptr ? " with bias" : ""));
}
cudaDataType type_of_output(const kernels::GroupedGemm& args, DType compute) {
  return args.f32_out ? CUDA_R_32F : type_of(compute);
}

}  // namespace

Result<std::unique_ptr<Gemms>> Gemms::make(DType compute, cudaStream_t stream,
                                           std::shared_ptr<Budget> budget, uint32_t most_ranges) {
  std::unique_ptr<Gemms> gemms(new Gemms(compute));
  ITIF_TRY(check(cublasCreate(&gemms->handle_), "cannot start cuBLAS"));
  ITIF_TRY(check(cublasSetStream(gemms->handle_, stream), "cannot start cuBLAS"));
  ITIF_ASSIGN(gemms->workspace_, allocate_buffer(std::move(budget), kWorkspaceBytes));
  ITIF_TRY(check(cublasSetWorkspace(gemms->handle_, gemms->workspace_->data(), kWorkspaceBytes),
                 "cannot start cuBLAS"));
  Groups& g = gemms->groups_;
  g.trans_w.assign(most_ranges, CUBLAS_OP_T);
  g.trans_a.assign(most_ranges, CUBLAS_OP_N);
  g.one.assign(most_ranges, 1.0f);
  g.zero.assign(most_ranges, 0.0f);
  g.sizes.assign(most_ranges, 1);
  for (auto* ints : {&g.m, &g.n, &g.k, &g.ldw, &g.lda, &g.ldc}) ints->resize(most_ranges);
  g.weights.resize(most_ranges);
  g.inputs.resize(most_ranges);
  g.outputs.resize(most_ranges);
  return gemms;
}

Gemms::~Gemms() {
  if (handle_ != nullptr) (void)cublasDestroy(handle_);
}

const std::byte* Gemms::input(const kernels::GroupedGemm& args,
                              const kernels::RowRange& range) const {
  return static_cast<const std::byte*>(args.a) +
         size_t{range.first_row} * args.k * dtype_bytes(compute_);
}
std::byte* Gemms::output(const kernels::GroupedGemm& args, const kernels::RowRange& range) const {
  return static_cast<std::byte*>(args.out) +
         size_t{range.first_row} * args.n * (args.f32_out ? sizeof(float) : dtype_bytes(compute_));
}

Status Gemms::run(const kernels::cuda::Launcher& launch, PlanMemory& plan,
                  const kernels::GroupedGemm& args) {
  ITIF_TRY(check_prepared(args));
  if (args.ranges.empty()) return {};
  if (args.ranges.size() == 1 || args.mode.of(args.n, args.k) == kernels::GemmMode::kInTurn)
    return in_turn(args);
  CHECK(args.ranges.size() <= groups_.m.size());
  const kernels::RowRange& first = args.ranges[0];
  const bool are_equal = std::ranges::all_of(
      args.ranges, [&](const kernels::RowRange& r) { return r.num_rows == first.num_rows; });
  const uint32_t step = args.ranges[1].slot - first.slot;
  bool are_even = are_equal && args.ranges[1].slot >= first.slot;
  for (size_t i = 1; i < args.ranges.size(); ++i)
    are_even = are_even && args.ranges[i].slot == first.slot + i * step;
  if (are_even) return strided(args);
  // Grouped calls have no f32 results of 16-bit operands.
  if (!are_equal && args.f32_out && compute_ != DType::kF32) return in_turn(args);
  return by_pointers(launch, plan, args, are_equal);
}

Status Gemms::in_turn(const kernels::GroupedGemm& args) {
  const int n = to_int(args.n), k = to_int(args.k);
  for (const kernels::RowRange& range : args.ranges)
    ITIF_TRY(check(
        cublasGemmEx(handle_, CUBLAS_OP_T, CUBLAS_OP_N, n, to_int(range.num_rows), k, &kOne,
                     args.weights.at(range.slot), type_of(compute_), k, input(args, range),
                     type_of(compute_), k, &kZero, output(args, range),
                     type_of_output(args, compute_), n, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
        kWhat));
  return {};
}

Status Gemms::strided(const kernels::GroupedGemm& args) {
  const int n = to_int(args.n), k = to_int(args.k);
  const kernels::RowRange& first = args.ranges[0];
  const auto rows = static_cast<long long>(first.num_rows);
  const auto stride_weights = static_cast<long long>(
      args.weights.stride_bytes * (args.ranges[1].slot - first.slot) / dtype_bytes(compute_));
  return check(cublasGemmStridedBatchedEx(
                   handle_, CUBLAS_OP_T, CUBLAS_OP_N, n, to_int(first.num_rows), k, &kOne,
                   args.weights.at(first.slot), type_of(compute_), k, stride_weights,
                   input(args, first), type_of(compute_), k, rows * k, &kZero, output(args, first),
                   type_of_output(args, compute_), n, rows * n, to_int(args.ranges.size()),
                   CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
               kWhat);
}

Status Gemms::by_pointers(const kernels::cuda::Launcher& launch, PlanMemory& plan,
                          const kernels::GroupedGemm& args, bool are_equal) {
  const size_t count = args.ranges.size();
  const int n = to_int(args.n), k = to_int(args.k);
  Groups& g = groups_;
  for (size_t i = 0; i < count; ++i) {
    const kernels::RowRange& range = args.ranges[i];
    g.m[i] = g.ldc[i] = n;
    g.n[i] = to_int(range.num_rows);
    g.k[i] = g.ldw[i] = g.lda[i] = k;
    g.weights[i] = args.weights.at(range.slot);
    g.inputs[i] = input(args, range);
    g.outputs[i] = output(args, range);
  }
  const auto* weights = plan.put(launch, std::span<const void* const>(g.weights.data(), count));
  const auto* inputs = plan.put(launch, std::span<const void* const>(g.inputs.data(), count));
  auto* outputs = plan.put(launch, std::span<void* const>(g.outputs.data(), count));
  if (weights == nullptr || inputs == nullptr || outputs == nullptr)
    return fail(Code::kInternal, "a batch's plan is larger than its memory");
  if (are_equal)
    return check(cublasGemmBatchedEx(handle_, CUBLAS_OP_T, CUBLAS_OP_N, n, g.n[0], k, &kOne,
                                     weights, type_of(compute_), k, inputs, type_of(compute_), k,
                                     &kZero, outputs, type_of_output(args, compute_), n,
                                     to_int(count), CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
                 kWhat);
  return check(cublasGemmGroupedBatchedEx(
                   handle_, g.trans_w.data(), g.trans_a.data(), g.m.data(), g.n.data(), g.k.data(),
                   g.one.data(), weights, type_of(compute_), g.ldw.data(), inputs,
                   type_of(compute_), g.lda.data(), g.zero.data(), outputs, type_of(compute_),
                   g.ldc.data(), to_int(count), g.sizes.data(), CUBLAS_COMPUTE_32F),
               kWhat);
}

Status Gemms::run(const kernels::BatchedGemm& args) {
  const size_t element = dtype_bytes(compute_);
  const auto at = [&](const void* base, size_t offset) {
    return static_cast<const std::byte*>(base) + offset * element;
  };
  for (const kernels::MatrixBatch& batch : args.batches) {
    const int m = to_int(batch.m), n = to_int(batch.n), k = to_int(batch.k);
    const auto size = [](int rows, int columns) {
      return static_cast<long long>(rows) * static_cast<long long>(columns);
    };
    ITIF_TRY(
        check(cublasGemmStridedBatchedEx(
                  handle_, args.is_b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N, CUBLAS_OP_N, n, m, k,
                  &kOne, at(args.b, batch.b), type_of(compute_), args.is_b_transposed ? k : n,
                  size(k, n), at(args.a, batch.a), type_of(compute_), k, size(m, k), &kZero,
                  const_cast<std::byte*>(at(args.out, batch.out)), type_of(compute_), n, size(m, n),
                  to_int(batch.count), CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
              kWhat));
  }
  return {};
}

}  // namespace itif::device::cuda
