#include "operator_rows.h"

#include <omp.h>

#include <cstring>

#include "bare_gemm.h"
#include "base/random.h"
#include "kernels/host/launch.h"

namespace itif::bench {

void copy_bytes(void* to, const void* from, size_t bytes, uint32_t threads) {
  kernels::host::parallel_rows({.num_threads = threads}, static_cast<uint32_t>(bytes), 4096,
                               [&](uint32_t begin, uint32_t end) {
                                 std::memcpy(static_cast<std::byte*>(to) + begin,
                                             static_cast<const std::byte*>(from) + begin,
                                             end - begin);
                               });
}

std::function<void()> copy_of(size_t bytes, uint32_t threads) {
  std::vector<std::byte> from(bytes / 2), to(bytes / 2);
  return
      [threads, from, to]() mutable { copy_bytes(to.data(), from.data(), from.size(), threads); };
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

Status OperatorRows::add(const std::string& title, const std::function<void()>& launch,
                         const std::function<void()>& limit, double limit_times) {
  const auto samples = measure({launch, limit}, options_.effort());
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
  launch();
  ITIF_TRY(check(title));
  return add(title, launch, copy_of(bytes, device_.info().num_threads), 1);
}

Status OperatorRows::compute_bound(const std::string& title, double flop,
                                   const std::function<void()>& launch, const Check& check) {
  if (!options_.wants(title)) return {};
  launch();
  ITIF_TRY(check(title));
  const auto gemm = make_bare_gemm(type(), 128, kHidden, kHidden, device_.info().num_threads);
  return add(
      title, launch, [&] { gemm->run(); }, flop / (2.0 * 128 * kHidden * kHidden));
}

}  // namespace itif::bench
