// The tensors of a model's directory: those of model.safetensors, or of the shards that
// model.safetensors.index.json lists.
//
// Tensors are read on demand with pread, not mapped. If a file is overwritten during a load, a
// mapping would raise SIGBUS and take every tenant down. A short read fails only one admission.
// Afterwards, unchanged() verifies that the files read are the files that were checked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
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
  // Errors: kNotFound (no weights), kUnsupported (weights only in another format), kCorrupt,
  // kPermission.
  static Result<Checkpoint> open(const std::string& directory);
  // Opens a single safetensors file. Errors: kNotFound, kCorrupt, kPermission.
  static Result<Checkpoint> open_file(const std::string& directory, const std::string& name);

  ~Checkpoint();
  Checkpoint(Checkpoint&&) noexcept;
  Checkpoint& operator=(Checkpoint&&) noexcept;

  const std::string& directory() const { return directory_; }
  // nullptr: there is none.
  const TensorEntry* find(std::string_view name) const;
  // In the order of their names.
  std::vector<std::string> names() const;
  // The file that holds a tensor. REQUIRES: find(name).
  const std::string& path_of(std::string_view name) const;

  // Returns the first of `names` that exists. If none does, returns a name for the error message:
  // one whose first part ("bert" of "bert.embeddings…") other tensors share, else the first.
  // REQUIRES: at least one name.
  const std::string& choose(std::span<const std::string> names) const;

  // Reads the floating-point tensor `name`, which the device will convert to `stored`. Errors:
  // kInvalidArgument (missing, another shape, a type other than F32, F16 and BF16, a value that is
  // not finite or that `stored` cannot hold), kCorrupt (the file ends early); all with file,
  // tensor, expected and found.
  Result<HostTensor> read(std::string_view name, const Shape& expected,
                          DType stored = DType::kF32) const;

  // Reads a tensor of any shape as it is. Errors: as read(), but values are not checked. REQUIRES:
  // find(name).
  Result<HostTensor> read_whole(std::string_view name) const;
  // Adds or replaces a tensor, which is kept in memory. `origin` names its file in errors.
  void put(const std::string& name, HostTensor tensor, const std::string& origin);
  // Removes a tensor, if it is there.
  void erase(std::string_view name);

  // Passes the tensor's bytes to `use` in pieces, but no more than `max_bytes` of them. Errors: as
  // read(), but values are not checked.
  Status scan(std::string_view name, const Shape& expected, uint64_t max_bytes,
              const std::function<void(std::span<const std::byte>)>& use) const;

  // As scan(), but of a tensor of any shape and type, and whole. All pieces but the last have a
  // multiple of 32 KiB. Errors: kCorrupt. REQUIRES: find(name).
  Status scan_whole(std::string_view name,
                    const std::function<void(std::span<const std::byte>)>& use) const;

  // Returns true if put() has supplied the tensor.
  bool is_in_memory(std::string_view name) const;
  // Identifies the files, without those of put(): equal while they are the same and unchanged.
  std::string version() const;

  // Errors: kCorrupt: a file has changed since it was opened.
  Status unchanged() const;

 private:
  struct File;
  struct Location {
    TensorEntry entry;
    size_t file;
  };

  Checkpoint();
  // Errors: kInvalidArgument (missing, another shape or type than read() takes).
  Result<const Location*> locate(std::string_view name, const Shape& expected) const;
  Status add_file(const std::string& path);
  Status open_shards(const std::string& index_path);

  std::string directory_;
  std::string names_file_;  // the file that lists all tensors, for errors
  std::vector<std::unique_ptr<File>> files_;
  std::map<std::string, Location, std::less<>> tensors_;
};

}  // namespace itif::model
