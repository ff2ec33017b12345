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
  // Of a decoder's steps, which have neither segments nor pieces.
  static BatchForms of_steps(uint32_t max_rows);

  // The one that costs least for `runs` of rows, a tenant's each; nullptr: none holds them. Allocates nothing.
  const BatchForm* find(std::span<const kernels::RowRange> runs, size_t num_segments,
                        size_t num_pieces) const noexcept;
  // Those most often met first.
  std::span<const BatchForm> all() const noexcept { return forms_; }
  uint32_t max_rows() const noexcept;  // of any

 private:
  void sort() noexcept;

  std::vector<BatchForm> forms_;
};

// Appends the ranges of rows [first_row, first_row + num_rows) of a tenant's: one, or as many as the batch's form, if
// it has one, has for them. Returns the row behind the last, padding included.
uint32_t append_ranges(const BatchForm* form, uint32_t first_row, uint32_t num_rows, uint32_t slot,
                       std::vector<kernels::RowRange>& ranges) noexcept;
// Appends those that the form has beyond them, from next_row on. Returns the row behind the last.
uint32_t fill_ranges(const BatchForm& form, uint32_t next_row,
                     std::vector<kernels::RowRange>& ranges) noexcept;

}  // namespace itif::runtime
