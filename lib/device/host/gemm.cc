#include "device/host/gemm.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <memory>

#include "device/convert.h"
#include "device/host/gemm_ladder.h"
#include "device/weight_views.h"

namespace itif::device {
namespace {

std::unexpected<Error> no_gemm(const ComputeTypes& types, const GemmShape& shape,
                               const std::exception& error) {
  return fail(Code::kUnsupported, fmt::format("oneDNN has no {} GEMM of {} × {}: {}",
                                              compute_name(types), shape.n, shape.k, error.what()));
}

}  // namespace

GemmLibrary::GemmLibrary(const ComputeTypes& types, uint32_t num_threads)
    : state_(std::make_shared<GemmState>(types, num_threads)) {}
GemmLibrary::~GemmLibrary() = default;

Result<size_t> GemmLibrary::packed_bytes(const GemmShape& shape) {
  const std::lock_guard lock(state_->mutex);
  try {
    return state_->find_or_add(shape)->weights.get_size();
  } catch (const std::exception& error) {
    return no_gemm(state_->types, shape, error);
  }
}

size_t GemmLibrary::num_prepared() const {
  const std::lock_guard lock(state_->mutex);
  return static_cast<size_t>(std::ranges::count_if(
      state_->ladders, [](const std::weak_ptr<Ladder>& ladder) { return !ladder.expired(); }));
}

Status GemmLibrary::pack(const GemmShape& shape, std::span<const TensorView> weight, void* target) {
  using dnnl::memory;
  ITIF_TRY(check_weight(shape, weight));
  const DType type = state_->types.weights;
  // Tenants are served meanwhile, so this avoids passes over memory: a whole weight of the right
  // type is packed from where it is, and other rows are not zeroed before they are written.
  std::unique_ptr<std::byte[]> copy;
  const std::byte* rows = nullptr;
  if (weight.size() == 1 && weight[0].dtype == type) rows = weight[0].data;
  if (rows == nullptr) {
    copy =
        std::make_unique_for_overwrite<std::byte[]>(size_t{shape.n} * shape.k * dtype_bytes(type));
    std::byte* to = copy.get();
    for (const TensorView& view : weight) {
      convert_floats(view, type, to);
      to += view.shape.elements() * dtype_bytes(type);
    }
    rows = copy.get();
  }
  try {
    const memory::desc packed = [&] {
      const std::lock_guard lock(state_->mutex);
      return state_->find_or_add(shape)->weights;
    }();
    const OpenMpThreads threads(1);
    memory source({{shape.k, shape.n}, dnnl_type(type), memory::format_tag::ba}, state_->engine,
                  const_cast<std::byte*>(rows));  // is only read
    memory target_memory(packed, state_->engine, target);
    dnnl::stream stream(state_->engine);
    dnnl::reorder(source, target_memory).execute(stream, source, target_memory);
    stream.wait();
  } catch (const std::exception& error) {
    return fail(Code::kInternal, fmt::format("oneDNN cannot pack weights of {} × {}: {}", shape.n,
                                             shape.k, error.what()));
  }
  return {};
}

Result<GemmHandle> GemmLibrary::prepare(const GemmShape& shape, uint32_t max_rows) {
  const std::lock_guard lock(state_->mutex);
  try {
    const std::shared_ptr<Ladder> ladder = state_->find_or_add(shape);
    ladder->last_rung =
        std::max(ladder->last_rung, rung_of(std::min(max_rows, call_rows(state_->types))));
    state_->add_rungs(*ladder);
    const size_t out_bytes = shape.f32_out ? sizeof(float) : dtype_bytes(state_->types.activations);
    if (state_->num_threads > 1)
      raise(state_->staging_bytes, size_t{kConcurrentRows} * shape.n * out_bytes);
    if (ladder->parts.count > 1)
      raise(state_->staging_bytes,
            size_t{kMaxPartRows} * (shape.n / ladder->parts.count) * out_bytes);
    return GemmHandle(ladder);
  } catch (const std::exception& error) {
    return no_gemm(state_->types, shape, error);
  }
}

std::string gemm_library_name() {
  const dnnl_version_t* version = dnnl_version();
  return fmt::format("oneDNN {}.{}.{}", version->major, version->minor, version->patch);
}

}  // namespace itif::device
