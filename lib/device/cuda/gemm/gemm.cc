#include "device/cuda/gemm/gemm.h"

#include <fmt/format.h>

#include <algorithm>
#include <type_traits>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "device/cuda/driver/error.h"
#include "device/cuda/gemm/packed_weights.h"

namespace itif::device::cuda {

Status check(cublasStatus_t error, const char* what) {
  if (error == CUBLAS_STATUS_SUCCESS) return {};
  return fail(error == CUBLAS_STATUS_ALLOC_FAILED ? Code::kResourceExhausted : Code::kInternal,
              fmt::format("{}: {}", what, (*load_blas())->status_string(error)));
}
namespace {

constexpr size_t kWorkspaceBytes = size_t{32} << 20;  // cuBLAS's recommendation for Hopper
constexpr size_t kSideWorkspaceBytes = kEpilogueWorkspaceBytes;

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
CallKind epilogue_kind(const GemmShape& shape) {
  return {.call = BlasCall::kWithEpilogue,
          .f32_out = shape.f32_out,
          .has_bias = shape.has_bias,
          .activation = shape.activation,
          .n = shape.n,
          .k = shape.k};
}
}  // namespace

Status Gemms::check_types(const ComputeTypes& types) {
  for (const DType type : {DType::kF32, DType::kBF16, DType::kF16})
    if (types == uniform_types(type)) return {};
  return fail(Code::kUnsupported,
              fmt::format("cuBLAS has no GEMM of {} weights and {} activations",
                          dtype_name(types.weights), dtype_name(types.activations)));
}

Result<GemmHandle> Gemms::prepare(GemmTrials& trials, Epilogues& epilogues, ScratchWeights& scratch,
                                  const ComputeTypes& types, const GemmShape& shape,
                                  uint32_t max_rows) {
  ITIF_ASSIGN(auto weights, scratch.at_least(scratch_bytes(types, shape)));
  ITIF_TRY(trials.try_out(types, shape, weights->data()));
  return std::make_shared<const PreparedShape>(shape, epilogues.prepare(types, shape, max_rows),
                                               std::move(weights));
}

Gemms::Gemms(const ComputeTypes& types, const kernels::cuda::Processors& processors,
             const Blas& blas)
    : types_(types),
      processors_(processors),
      calls_(types.activations),
      type_weights_(type_of(types.weights)),
      type_activations_(type_of(types.activations)),
      blas_(blas) {}

Result<std::unique_ptr<Gemms>> Gemms::make(const ComputeTypes& types,
                                           const kernels::cuda::Processors& processors,
                                           const SliceStreams& streams, const BlasHandles& handles,
                                           std::shared_ptr<Budget> budget) {
  ITIF_ASSIGN(const Blas* blas, load_blas());
  std::unique_ptr<Gemms> gemms(new Gemms(types, processors, *blas));
  for (BlasStream& blas_stream : gemms->streams_) {
    const bool is_first = &blas_stream == &gemms->streams_[0];
    ITIF_ASSIGN(blas_stream.workspace,
                allocate_buffer(budget, is_first ? kWorkspaceBytes : kSideWorkspaceBytes));
  }
  ITIF_ASSIGN(gemms->host_scratch_pointers_, Pinned::allocate(3 * kMaxBucketRows * sizeof(void*)));
  ITIF_ASSIGN(gemms->scratch_pointers_,
              allocate_buffer(budget, gemms->host_scratch_pointers_.bytes()));
  ITIF_TRY(gemms->use_streams(streams, handles));
  return gemms;
}

Status Gemms::use_streams(const SliceStreams& streams, const BlasHandles& handles) {
  static_assert(SliceStreams::kStreams == GemmCalls::kStreams);
  context_ = streams.context.get();
  slice_processors_ = streams.processors;
  lt_ = handles.lt;
  for (size_t i = 0; i < streams_.size(); ++i) {
    streams_[i].stream = streams.streams[i];
    streams_[i].handle = handles.all[i];
    streams_[i].reached = &handles.reached[i];
    ITIF_TRY(bind(streams_[i]));
  }
  return {};
}

Status Gemms::use_processors(uint32_t count) {
  slice_processors_ = count;
  for (BlasStream& each : streams_) ITIF_TRY(bind(each));
  return {};
}

Status Gemms::bind(BlasStream& blas_stream) {
  constexpr const char* kWhat = "cuBLAS cannot use a stream";
  ITIF_TRY(check(blas_.set_stream(blas_stream.handle, blas_stream.stream), kWhat));
  ITIF_TRY(
      check(blas_.set_processors(blas_stream.handle, static_cast<int>(slice_processors_)), kWhat));
  // Setting the stream has put cuBLAS's own workspace in its place.
  return check(blas_.set_workspace(blas_stream.handle, blas_stream.workspace->data(),
                                   blas_stream.workspace->bytes()),
               kWhat);
}

const std::byte* Gemms::input(const kernels::GroupedGemm& args,
                              const kernels::RowRange& range) const {
  return static_cast<const std::byte*>(args.a) +
         size_t{range.first_row} * args.k * dtype_bytes(types_.activations);
}
std::byte* Gemms::output(const kernels::GroupedGemm& args, const kernels::RowRange& range) const {
  return static_cast<std::byte*>(args.out) +
         size_t{range.first_row} * args.n *
             (args.f32_out ? sizeof(float) : dtype_bytes(types_.activations));
}
cudaDataType Gemms::type_of_output(const kernels::GroupedGemm& args) const {
  return args.f32_out ? CUDA_R_32F : type_activations_;
}

bool Gemms::has_epilogue(const kernels::GroupedGemm& args) const {
  const auto* prepared = static_cast<const PreparedShape*>(args.prepared);
  return prepared != nullptr && prepared->shape.activation == args.activation &&
         !calls_.refusals().has(epilogue_kind(prepared->shape)) && calls_.are_single(args) &&
         std::ranges::all_of(args.ranges, [&](const auto& range) {
           return prepared->with_epilogue.runs(with_epilogue(args, range));
         });
}

EpilogueGemm::Call Gemms::with_epilogue(const kernels::GroupedGemm& args,
                                        const kernels::RowRange& range) const {
  const GemmShape& shape = static_cast<const PreparedShape*>(args.prepared)->shape;
  EpilogueGemm::Call call{.rows = range.num_rows,
                          .processors = slice_processors_,
                          .weight = args.weights.at(range.slot),
                          .a = input(args, range),
                          .out = output(args, range)};
  if (has_packed_bias(types_, shape))
    call.bias = args.weights.at(range.slot) + packed_bias_offset(types_, shape);
  else if (shape.has_bias)
    call.bias = args.bias.at(range.slot);
  return call;
}

Status Gemms::run(const kernels::cuda::Launcher& launch, PlanMemory& plan, LaunchKey& key,
                  std::span<const kernels::GroupedGemm> all) {
  calls_.clear();
  for (const kernels::GroupedGemm& args : all) {
    ITIF_TRY(check_prepared(args));
    if (args.ranges.empty()) continue;
    calls_.add(args, has_epilogue(args));
  }
  const Join join_of{this, calls_.balance()};
  if (join_of.num_streams > 1) add_call<Join>(launch, key, &fork, join_of);
  for (const GemmCalls::Call& call : calls_.all()) {
    if (call.by_pointers) {
      ITIF_TRY(add_pointers(launch, plan, key, call));
      continue;
    }
    if (call.is_batched) {
      add_strided(launch, key, call);
      continue;
    }
    const kernels::RowRange& range = call.args.ranges[0];
    if (call.has_epilogue) {
      add_call<WithEpilogue>(launch, key, &make_with_epilogue, single_with_epilogue(call),
                             &load_with_epilogue);
      continue;
    }
    Strided single_call = single(call.args, range);
    single_call.stream_index = call.stream_index;
    add_call<Strided>(launch, key, &make_strided, single_call, &load_strided);
  }
  if (join_of.num_streams > 1) add_call<Join>(launch, key, &join, join_of);
  return {};
}

// Logs a library call and adds the same object to the key of its graph segment. The call is made
// from that object alone, so the key holds all that it depends on.
template <class Call>
void Gemms::add_call(const kernels::cuda::Launcher& launch, LaunchKey& key,
                     kernels::cuda::LaunchLog::Make<Call> make, const Call& call,
                     kernels::cuda::LaunchLog::Make<Call> load) {
  key.add(make);
  if constexpr (std::is_same_v<Call, Pointers>)
    add_to_key(key, call);
  else
    key.add(call);
  launch.log().add<Call>(make, call, load);
}

// A call by pointers finds weights and rows in plan memory, which each batch fills. Only the sizes
// of a grouped call are host memory, which differs between equal batches: the key has the sizes
// themselves. No graph holds the calls of alone_.
void Gemms::add_to_key(LaunchKey& key, const Pointers& call) {
  Pointers keyed = call;
  keyed.groups = nullptr;
  keyed.first_alone = 0;
  key.add(keyed);
  if (call.groups == nullptr) return;
  for (const int rows : call.groups->n) key.add(rows);
}

Gemms::Strided Gemms::single(const kernels::GroupedGemm& args, const kernels::RowRange& range) {
  Strided call;
  call.gemms = this;
  call.m = to_int(args.n);
  call.n = to_int(range.num_rows);
  call.k = call.ldw = to_int(args.k);
  call.w = args.weights.at(range.slot);
  call.type_w = type_weights_;
  call.a = input(args, range);
  call.out = output(args, range);
  call.type_out = type_of_output(args);
  call.scratch = static_cast<const PreparedShape*>(args.prepared)->scratch->data();
  return call;
}

Gemms::WithEpilogue Gemms::single_with_epilogue(const GemmCalls::Call& divided) {
  const kernels::GroupedGemm& args = divided.args;
  const kernels::RowRange& range = args.ranges[0];
  const auto* prepared = static_cast<const PreparedShape*>(args.prepared);
  WithEpilogue call{.gemms = this,
                    .stream_index = divided.stream_index,
                    .gemm = &prepared->with_epilogue,
                    .call = with_epilogue(args, range),
                    .scratch = prepared->scratch->data(),
                    .plain = single(args, range),
                    .behind = {.x = output(args, range),
                               .bias = {},
                               .width = args.n,
                               .activation = args.activation,
                               .ranges = {}},
                    .kind = epilogue_kind(prepared->shape)};
  if (args.bias.base != nullptr) call.behind.bias = {args.bias.at(range.slot), 0};
  call.plain.stream_index = divided.stream_index;
  return call;
}

void Gemms::add_strided(const kernels::cuda::Launcher& launch, LaunchKey& key,
                        const GemmCalls::Call& divided) {
  const kernels::GroupedGemm& args = divided.args;
  const uint32_t step = args.ranges[1].slot - args.ranges[0].slot;
  Strided call = single(args, args.ranges[0]);
  call.stream_index = divided.stream_index;
  call.stride_w =
      static_cast<long long>(args.weights.stride_bytes * step / dtype_bytes(types_.weights));
  call.stride_a = static_cast<long long>(call.n) * call.k;
  call.stride_out = static_cast<long long>(call.n) * call.m;
  call.count = to_int(args.ranges.size());
  call.kind = kind_of(BlasCall::kStrided, args);
  add_call<Strided>(launch, key, &make_strided, call);
}

void Gemms::clear() noexcept {
  std::erase_if(groups_, [](const auto& groups) { return groups.use_count() > 1; });
  num_groups_ = 0;
  alone_.clear();
}

std::shared_ptr<Gemms::Groups> Gemms::make_groups(std::span<const kernels::RowRange> ranges, int m,
                                                  int k) {
  if (num_groups_ == groups_.size()) groups_.push_back(std::make_shared<Groups>());
  const std::shared_ptr<Groups>& made = groups_[num_groups_++];
  Groups& g = *made;
  const size_t count = ranges.size();
  g.trans_w.assign(count, CUBLAS_OP_T);
  g.trans_a.assign(count, CUBLAS_OP_N);
  g.one.assign(count, 1.0f);
  g.zero.assign(count, 0.0f);
  g.sizes.assign(count, 1);
  for (auto* ints : {&g.m, &g.ldc}) ints->assign(count, m);
  for (auto* ints : {&g.k, &g.ldw, &g.lda}) ints->assign(count, k);
  g.n.clear();
  for (const kernels::RowRange& range : ranges) g.n.push_back(to_int(range.num_rows));
  return made;
}

Status Gemms::add_pointers(const kernels::cuda::Launcher& launch, PlanMemory& plan, LaunchKey& key,
                           const GemmCalls::Call& divided) {
  const kernels::GroupedGemm& args = divided.args;
  weights_.clear();
  inputs_.clear();
  outputs_.clear();
  for (const kernels::RowRange& range : args.ranges) {
    weights_.push_back(args.weights.at(range.slot));
    inputs_.push_back(input(args, range));
    outputs_.push_back(output(args, range));
  }
  Pointers call{.gemms = this,
                .stream_index = divided.stream_index,
                .m = to_int(args.n),
                .n = to_int(args.ranges[0].num_rows),
                .k = to_int(args.k),
                .weights = plan.put(launch, std::span<const void* const>(weights_)),
                .inputs = plan.put(launch, std::span<const void* const>(inputs_)),
                .outputs = plan.put(launch, std::span<void* const>(outputs_)),
                .count = to_int(args.ranges.size()),
                .type_out = type_of_output(args),
                .scratch = static_cast<const PreparedShape*>(args.prepared)->scratch->data(),
                .input = input(args, args.ranges[0]),
                .output = output(args, args.ranges[0]),
                .first_alone = alone_.size(),
                .kind = kind_of(BlasCall::kByPointers, args)};
  if (call.weights == nullptr || call.inputs == nullptr || call.outputs == nullptr)
    return fail(Code::kResourceExhausted, "a batch's plan data does not fit its memory");
  for (const kernels::RowRange& range : args.ranges) {
    alone_.push_back(single(args, range));
    alone_.back().stream_index = divided.stream_index;
  }
  if (!are_equally_long(args.ranges)) {
    const std::shared_ptr<Groups> groups = make_groups(args.ranges, call.m, call.k);
    call.groups = groups.get();
    call.kind.call = BlasCall::kGrouped;
    key.keep(groups);
  }
  add_call<Pointers>(launch, key, &make_pointers, call, &load_pointers);
  return {};
}

void Gemms::run(const kernels::cuda::Launcher& launch, LaunchKey& key,
                const kernels::BatchedGemm& args) {
  const size_t element = dtype_bytes(types_.activations);
  const auto size = [](int rows, int columns) {
    return static_cast<long long>(rows) * static_cast<long long>(columns);
  };
  for (const kernels::MatrixBatch& batch : args.batches) {
    Strided call;
    call.gemms = this;
    call.trans_w = args.is_b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    call.m = to_int(batch.n);
    call.n = to_int(batch.m);
    call.k = to_int(batch.k);
    call.w = static_cast<const std::byte*>(args.b) + batch.b * element;
    call.type_w = type_activations_;
    call.a = static_cast<const std::byte*>(args.a) + batch.a * element;
    call.out = static_cast<std::byte*>(args.out) + batch.out * element;
    call.ldw = args.is_b_transposed ? call.k : call.m;
    call.stride_w = size(call.k, call.m);
    call.stride_a = size(call.n, call.k);
    call.stride_out = size(call.n, call.m);
    call.count = to_int(batch.count);
    call.type_out = type_activations_;
    // Queries · keysᵀ have the length in n, probabilities · values in k.
    call.kind = {.n = args.is_b_transposed ? 0 : batch.n, .k = args.is_b_transposed ? batch.k : 0};
    if (!refusals().has(call.kind)) {
      add_call<Strided>(launch, key, &make_strided, call, &load_strided);
      continue;
    }
    for (int i = 0; i < call.count; ++i)
      add_call<Strided>(launch, key, &make_strided, one_of(call, i), &load_strided);
  }
}

}  // namespace itif::device::cuda
