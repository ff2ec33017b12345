// The few forms that small batches are padded to, so that a device which keeps what it has launched (CUDA graphs) finds
// each batch among what came before: DeviceInfo::form_rows.
//
// A form is a number of ranges of equally many rows: one GEMM call of pointers, whoever the tenants are. A tenant's rows
// take as many ranges as they need, padded at their end; ranges that no tenant needs compute something that nobody
// reads. Segments and id pieces are padded with empty ones, in two sizes: what few requests need, and many short ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/args.h"

namespace itif::runtime {

struct BatchForm {
  uint32_t range_rows = 0;
  uint32_t num_ranges = 0;
  uint32_t num_segments = 0;  // room for so many
  uint32_t num_pieces = 0;    // likewise
  uint32_t num_images = 0;    // likewise

  uint32_t num_rows() const noexcept { return range_rows * num_ranges; }
};

class BatchForms {
 public:
  BatchForms() = default;  // none
  // Of up to max_rows rows. `image_tokens`: of each request where the group takes images, whose ranges hold one each;
  // 0: it takes token ids.
  BatchForms(uint32_t max_rows, uint32_t image_tokens);

  // The one that costs least for `runs` of rows, a tenant's each; nullptr: none holds them. Allocates nothing.
  const BatchForm* find(std::span<const kernels::RowRange> runs, size_t num_segments,
                        size_t num_pieces) const noexcept;
  // Those most often met first.
  std::span<const BatchForm> all() const noexcept { return forms_; }

 private:
  std::vector<BatchForm> forms_;
};

}  // namespace itif::runtime
