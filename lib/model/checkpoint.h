// The tensors of a model's directory, wherever they lie: model.safetensors, or the shards of
// model.safetensors.index.json.
//
// Tensors are read on demand with pread, not mapped: a file that somebody overwrites while it is
// being loaded would turn a mapping into SIGBUS and take every tenant down; a short read is an
// error of one admission. unchanged() tells afterwards whether what was read is what was checked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "model/safetensors.h"
#include "tensor/tensor_view.h"

namespace itif::model {

// A tensor's bytes in host memory.
struct HostTensor {
  std::unique_ptr<std::byte[]> data;
  TensorView view;
};

class Checkpoint {
 public:
  // Errors: kNotFound (no weights), kUnsupported (only in another format), kCorrupt, kPermission.
  static Result<Checkpoint> open(const std::string& directory);

  ~Checkpoint();
  Checkpoint(Checkpoint&&) noexcept;
  Checkpoint& operator=(Checkpoint&&) noexcept;

  const std::string& directory() const { return directory_; }
  // nullptr: there is none.
  const TensorEntry* find(std::string_view name) const;

  // The first of `names` that is there. If none is, the one that the other tensors suggest, for the
  // message: whose first part ("bert" of "bert.embeddings…") others have. REQUIRES: one name at least.
  const std::string& choose(std::span<const std::string> names) const;

  // Floating-point tensor `name`. Errors: kInvalidArgument (missing, another shape, another type
  // than F32, F16 or BF16), kCorrupt (the file ends early); all with file, tensor, expected and
  // found.
  Result<HostTensor> read(std::string_view name, const Shape& expected) const;

  // Errors: kCorrupt: a file is not what it was when it was opened.
  Status unchanged() const;

 private:
  struct File;
  struct Place {
    TensorEntry entry;
    size_t file;
  };

  Checkpoint();
  Status add_file(const std::string& path);
  Status open_shards(const std::string& index_path);

  std::string directory_;
  std::string names_file_;  // where a missing tensor should have been named
  std::vector<std::unique_ptr<File>> files_;
  std::map<std::string, Place, std::less<>> tensors_;
};

}  // namespace itif::model
