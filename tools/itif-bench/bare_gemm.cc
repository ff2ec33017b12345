#include "bare_gemm.h"

#include <omp.h>

#include <algorithm>
#include <cstring>
#include <oneapi/dnnl/dnnl.hpp>
#include <unordered_map>
#include <vector>

#include "base/random.h"

namespace itif::bench {
namespace {

using dnnl::memory;

dnnl::engine& engine() {
  static dnnl::engine cpu(dnnl::engine::kind::cpu, 0);
  return cpu;
}

// Small random numbers: zeros would let the hardware save power.
memory random_memory(const memory::desc& layout, DType type, Random& random) {
  memory filled(layout, engine());
  const size_t count = layout.get_size() / dtype_bytes(type);
  void* data = filled.get_data_handle();
  for (size_t i = 0; i < count; ++i) {
    const auto value = static_cast<float>(random.uniform() - 0.5) * 0.1f;
    if (type == DType::kBF16)
      static_cast<uint16_t*>(data)[i] = f32_to_bf16(value);
    else
      static_cast<float*>(data)[i] = value;
  }
  return filled;
}

class DnnlBareGemm final : public BareGemm {
 public:
  DnnlBareGemm(DType type, uint32_t rows, uint32_t n, uint32_t k, uint32_t threads)
      : stream_(engine()), threads_(static_cast<int>(threads)) {
    omp_set_num_threads(threads_);
    const auto element = type == DType::kBF16 ? memory::data_type::bf16 : memory::data_type::f32;
    const memory::desc a({rows, k}, element, memory::format_tag::ab);
    const memory::desc w({k, n}, element, memory::format_tag::any);
    const memory::desc out({rows, n}, element, memory::format_tag::ab);
    dnnl::primitive_attr attr;
    attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
#if DNNL_VERSION_MAJOR >= 3
    const dnnl::matmul::primitive_desc description(engine(), a, w, out, attr);
#else
    const dnnl::matmul::primitive_desc description(dnnl::matmul::desc(a, w, out), attr, engine());
#endif
    primitive_ = dnnl::matmul(description);
    Random random(rows + n + k);
    arguments_ = {{DNNL_ARG_SRC, random_memory(a, type, random)},
                  {DNNL_ARG_WEIGHTS, random_memory(description.weights_desc(), type, random)},
                  {DNNL_ARG_DST, memory(out, engine())},
                  {DNNL_ARG_SCRATCHPAD, memory(description.scratchpad_desc(), engine())}};
  }

  void run() override {
    omp_set_num_threads(threads_);
    primitive_.execute(stream_, arguments_);
  }

 private:
  dnnl::stream stream_;
  int threads_;
  dnnl::matmul primitive_;
  std::unordered_map<int, memory> arguments_;
};

}  // namespace

std::unique_ptr<BareGemm> make_bare_gemm(DType type, uint32_t rows, uint32_t n, uint32_t k,
                                         uint32_t threads) {
  return std::make_unique<DnnlBareGemm>(type, rows, n, k, threads);
}

}  // namespace itif::bench
