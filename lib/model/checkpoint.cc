#include "model/checkpoint.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <optional>
#include <set>

#include "json/json_file.h"

namespace itif::model {

// An open file and its attributes when its header was checked, or a tensor in memory.
struct Checkpoint::File {
  std::string path;
  int fd = -1;
  struct stat opened {};
  std::unique_ptr<std::byte[]> memory = nullptr;  // of the tensor; the file is not open

  ~File() {
    if (fd >= 0) ::close(fd);
  }

  Status read_at(uint64_t offset, size_t bytes, std::byte* out) const {
    if (memory) {
      std::copy_n(memory.get() + offset, bytes, out);
      return {};
    }
    while (bytes) {
      const ssize_t got =
          ::pread(fd, out, std::min<size_t>(bytes, 64u << 20), static_cast<off_t>(offset));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0)
        return fail(Code::kCorrupt,
                    fmt::format("{}: byte {}: {}", path, offset, errno_text(errno)));
      if (got == 0)
        return fail(Code::kCorrupt,
                    fmt::format("{}: expected {} more bytes at byte {}, found the end: truncated "
                                "while it was read",
                                path, bytes, offset));
      out += got;
      offset += static_cast<uint64_t>(got);
      bytes -= static_cast<size_t>(got);
    }
    return {};
  }
  Status scan(uint64_t begin, uint64_t end,
              const std::function<void(std::span<const std::byte>)>& use) const {
    // Read at a time: stays in a core's cache, and small enough not to be mapped for each tensor.
    constexpr size_t kScanBytes = 64 << 10;
    const auto piece = std::make_unique_for_overwrite<std::byte[]>(kScanBytes);
    for (uint64_t at = begin; at < end;) {
      const size_t bytes = std::min<uint64_t>(kScanBytes, end - at);
      ITIF_TRY(read_at(at, bytes, piece.get()));
      use(std::span(piece.get(), bytes));
      at += bytes;
    }
    return {};
  }
};

namespace {

// Index of the first element whose bits without the sign are at least `limit`. Looks at whole
// blocks first: a sum with a carry into the sign, which compilers turn into vector code.
template <class Bits>
std::optional<size_t> first_beyond(const std::byte* data, size_t bytes, Bits limit) {
  constexpr Bits kSign = static_cast<Bits>(~(static_cast<Bits>(~Bits{0}) >> 1));
  constexpr size_t kBlock = 1024;
  const Bits to_sign = static_cast<Bits>(kSign - limit);
  const size_t count = bytes / sizeof(Bits);
  const auto with_sign = [=](size_t i) {
    Bits bits;
    std::memcpy(&bits, data + i * sizeof(Bits), sizeof(Bits));
    return static_cast<Bits>(static_cast<Bits>(bits & ~kSign) + to_sign);
  };
  size_t i = 0;
  for (; i + kBlock <= count; i += kBlock) {
    Bits any = 0;
    for (size_t j = 0; j < kBlock; ++j) any |= with_sign(i + j);
    if ((any & kSign) != 0) break;
  }
  for (; i < count; ++i)
    if ((with_sign(i) & kSign) != 0) return i;
  return std::nullopt;
}

// Index of the first NaN, infinity, or value that becomes infinite in the type `stored`. Limits are
// the smallest such magnitude: all bits of the exponent set, or what rounds to f16's 65536 or
// bf16's 2^128.
std::optional<size_t> first_beyond(const std::byte* data, size_t bytes, DType type, DType stored) {
  if (type == DType::kF32) {
    const uint32_t limit = stored == DType::kF16    ? 0x477ff000
                           : stored == DType::kBF16 ? 0x7f7f8000
                                                    : 0x7f800000;
    return first_beyond<uint32_t>(data, bytes, limit);
  }
  if (type == DType::kBF16)
    return first_beyond<uint16_t>(data, bytes, stored == DType::kF16 ? 0x4780 : 0x7f80);
  return first_beyond<uint16_t>(data, bytes, 0x7c00);
}

bool exists(const std::string& path) {
  return ::access(path.c_str(), F_OK) == 0;
}

// A shard must be in the directory itself; its name must not lead elsewhere.
bool is_plain_file_name(std::string_view name) {
  return !name.empty() && name.size() < 256 && name != "." && name != ".." &&
         name.find('/') == std::string_view::npos && name.find('\0') == std::string_view::npos;
}

}  // namespace

Checkpoint::Checkpoint() = default;
Checkpoint::~Checkpoint() = default;
Checkpoint::Checkpoint(Checkpoint&&) noexcept = default;
Checkpoint& Checkpoint::operator=(Checkpoint&&) noexcept = default;

Result<Checkpoint> Checkpoint::open(const std::string& directory) {
  Checkpoint checkpoint;
  checkpoint.directory_ = directory;
  const std::string single = directory + "/model.safetensors";
  const std::string index = single + ".index.json";
  if (exists(single)) {
    checkpoint.names_file_ = single;
    ITIF_TRY(checkpoint.add_file(single));
  } else if (exists(index)) {
    checkpoint.names_file_ = index;
    ITIF_TRY(checkpoint.open_shards(index));
  } else {
    for (const char* other : {"pytorch_model.bin", "pytorch_model.bin.index.json", "tf_model.h5",
                              "flax_model.msgpack", "model.onnx"})
      if (exists(directory + "/" + other))
        return fail(
            Code::kUnsupported,
            fmt::format("{}: expected model.safetensors, found {}: save the model again with "
                        "save_pretrained(..., safe_serialization=True)",
                        directory, other));
    return fail(Code::kNotFound, fmt::format("{}: expected model.safetensors or "
                                             "model.safetensors.index.json, found neither",
                                             directory));
  }
  return checkpoint;
}

Result<Checkpoint> Checkpoint::open_file(const std::string& directory, const std::string& name) {
  Checkpoint checkpoint;
  checkpoint.directory_ = directory;
  checkpoint.names_file_ = directory + "/" + name;
  ITIF_TRY(checkpoint.add_file(checkpoint.names_file_));
  return checkpoint;
}

Status Checkpoint::add_file(const std::string& path) {
  auto file = std::make_unique<File>();
  file->path = path;
  file->fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file->fd < 0) {
    const Code code = errno == EACCES ? Code::kPermission : Code::kNotFound;
    return fail(code, fmt::format("{}: {}", path, errno_text(errno)));
  }
  if (::fstat(file->fd, &file->opened) != 0 || !S_ISREG(file->opened.st_mode))
    return fail(Code::kCorrupt, fmt::format("{}: not a regular file", path));
  const uint64_t file_bytes = static_cast<uint64_t>(file->opened.st_size);
  if (file_bytes < 8)
    return fail(Code::kCorrupt, fmt::format("{}: expected at least 8 bytes, found {}: truncated",
                                            path, file_bytes));
  std::array<std::byte, 8> prefix;
  ITIF_TRY(file->read_at(0, prefix.size(), prefix.data()));
  ITIF_ASSIGN(const uint64_t header_bytes, parse_safetensors_prefix(prefix, file_bytes, path));
  std::vector<std::byte> header(header_bytes);
  ITIF_TRY(file->read_at(8, header.size(), header.data()));
  ITIF_ASSIGN(std::vector<TensorEntry> entries, parse_safetensors_header(header, file_bytes, path));

  const size_t file_index = files_.size();
  for (TensorEntry& entry : entries) {
    const std::string name = entry.name;
    const auto [it, added] = tensors_.try_emplace(name, Location{std::move(entry), file_index});
    if (!added)
      return fail(Code::kCorrupt, fmt::format("{}: tensor {} is also in {}", path,
                                              json_file::shown(nlohmann::json(name)),
                                              files_[it->second.file]->path));
  }
  files_.push_back(std::move(file));
  return {};
}

Status Checkpoint::open_shards(const std::string& index_path) {
  ITIF_ASSIGN(const nlohmann::json index, json_file::read_json_file(index_path));
  const auto map = index.find("weight_map");
  if (map == index.end() || !map->is_object())
    return fail(Code::kCorrupt,
                fmt::format("{}: expected an object 'weight_map', found {}", index_path,
                            map == index.end() ? "none" : json_file::shown(*map)));
  std::set<std::string> shards;
  for (const auto& item : map->items()) {
    const nlohmann::json name(item.key());
    if (!item.value().is_string())
      return fail(Code::kCorrupt,
                  fmt::format("{}: tensor {}: expected a file name, found {}", index_path,
                              json_file::shown(name), json_file::shown(item.value())));
    const std::string shard = item.value().get<std::string>();
    if (!is_plain_file_name(shard))
      return fail(
          Code::kCorrupt,
          fmt::format("{}: tensor {}: expected the name of a file in this directory, found {}",
                      index_path, json_file::shown(name), json_file::shown(item.value())));
    shards.insert(shard);
  }
  for (const std::string& shard : shards) ITIF_TRY(add_file(directory_ + "/" + shard));
  for (const auto& item : map->items()) {
    const TensorEntry* entry = find(item.key());
    const std::string path = directory_ + "/" + item.value().get<std::string>();
    if (!entry || files_[tensors_.find(item.key())->second.file]->path != path)
      return fail(Code::kCorrupt,
                  fmt::format("{}: tensor {}: expected it in {}, found {}", index_path,
                              json_file::shown(nlohmann::json(item.key())), path,
                              entry ? files_[tensors_.find(item.key())->second.file]->path
                                    : std::string("it in no shard")));
  }
  return {};
}

const TensorEntry* Checkpoint::find(std::string_view name) const {
  const auto it = tensors_.find(name);
  return it == tensors_.end() ? nullptr : &it->second.entry;
}

std::vector<std::string> Checkpoint::names() const {
  std::vector<std::string> names;
  for (const auto& [name, location] : tensors_) names.push_back(name);
  return names;
}

void Checkpoint::put(const std::string& name, HostTensor tensor, const std::string& origin) {
  TensorEntry entry{.name = name,
                    .dtype_text = std::string(dtype_name(tensor.view.dtype)),
                    .dtype = tensor.view.dtype,
                    .dims = {},
                    .begin = 0,
                    .end = tensor.view.bytes()};
  const Shape& shape = tensor.view.shape;
  entry.dims.assign(shape.dims.begin(), shape.dims.begin() + shape.rank);
  auto file = std::make_unique<File>();
  file->path = origin;
  file->memory = std::move(tensor.data);
  tensors_.insert_or_assign(name, Location{std::move(entry), files_.size()});
  files_.push_back(std::move(file));
}

void Checkpoint::erase(std::string_view name) {
  if (const auto it = tensors_.find(name); it != tensors_.end()) tensors_.erase(it);
}

const std::string& Checkpoint::path_of(std::string_view name) const {
  return files_[tensors_.find(name)->second.file]->path;
}

Result<const Checkpoint::Location*> Checkpoint::locate(std::string_view name,
                                                       const Shape& expected) const {
  const auto it = tensors_.find(name);
  if (it == tensors_.end())
    return fail(Code::kInvalidArgument, fmt::format("{}: tensor \"{}\": expected {}, found none",
                                                    names_file_, name, expected.text()));
  const TensorEntry& entry = it->second.entry;
  const File& file = *files_[it->second.file];
  const std::span<const uint64_t> wanted(expected.dims.data(), static_cast<size_t>(expected.rank));
  if (!std::equal(wanted.begin(), wanted.end(), entry.dims.begin(), entry.dims.end()))
    return fail(Code::kInvalidArgument,
                fmt::format("{}: tensor \"{}\": expected {}, found {}", file.path, name,
                            expected.text(), shape_text(entry.dims)));
  if (entry.dtype != DType::kF32 && entry.dtype != DType::kF16 && entry.dtype != DType::kBF16)
    return fail(Code::kInvalidArgument,
                fmt::format("{}: tensor \"{}\": expected F32, F16 or BF16, found {}", file.path,
                            name, entry.dtype_text));
  return &it->second;
}

Result<HostTensor> Checkpoint::read_whole(std::string_view name) const {
  const TensorEntry& entry = tensors_.find(name)->second.entry;
  Shape shape;
  if (entry.dims.size() > shape.dims.size())
    return fail(Code::kInvalidArgument,
                fmt::format("{}: tensor \"{}\": expected at most {} dimensions, found {}",
                            path_of(name), name, shape.dims.size(), shape_text(entry.dims)));
  std::ranges::copy(entry.dims, shape.dims.begin());
  shape.rank = static_cast<int>(entry.dims.size());
  ITIF_ASSIGN(const Location* location, locate(name, shape));
  HostTensor tensor;
  const size_t bytes = entry.end - entry.begin;
  tensor.data = std::make_unique_for_overwrite<std::byte[]>(bytes);
  ITIF_TRY(files_[location->file]->read_at(entry.begin, bytes, tensor.data.get()));
  tensor.view = {tensor.data.get(), *entry.dtype, shape};
  return tensor;
}

Status Checkpoint::scan(std::string_view name, const Shape& expected, uint64_t max_bytes,
                        const std::function<void(std::span<const std::byte>)>& use) const {
  ITIF_ASSIGN(const Location* location, locate(name, expected));
  const TensorEntry& entry = location->entry;
  return files_[location->file]->scan(
      entry.begin, entry.begin + std::min(max_bytes, entry.end - entry.begin), use);
}

Status Checkpoint::scan_whole(std::string_view name,
                              const std::function<void(std::span<const std::byte>)>& use) const {
  const Location& location = tensors_.find(name)->second;
  return files_[location.file]->scan(location.entry.begin, location.entry.end, use);
}

Result<HostTensor> Checkpoint::read(std::string_view name, const Shape& expected,
                                    DType stored) const {
  ITIF_ASSIGN(const Location* location, locate(name, expected));
  const TensorEntry& entry = location->entry;
  const File& file = *files_[location->file];
  HostTensor tensor;
  const size_t bytes = entry.end - entry.begin;
  tensor.data = std::make_unique_for_overwrite<std::byte[]>(bytes);
  ITIF_TRY(file.read_at(entry.begin, bytes, tensor.data.get()));
  tensor.view = {tensor.data.get(), *entry.dtype, expected};
  if (const auto element = first_beyond(tensor.data.get(), bytes, *entry.dtype, stored)) {
    const float value = tensor.view.at(*element);
    const std::string reason =
        std::isfinite(value)
            ? fmt::format("{} cannot hold it: use a group of another dtype", dtype_name(stored))
            : std::string("every weight must be finite: the model is damaged");
    return fail(Code::kInvalidArgument, fmt::format("{}: tensor \"{}\": element {} is {}, and {}",
                                                    file.path, name, *element, value, reason));
  }
  return tensor;
}

bool Checkpoint::is_in_memory(std::string_view name) const {
  const auto it = tensors_.find(name);
  return it != tensors_.end() && files_[it->second.file]->memory != nullptr;
}

// A file's time of change (ctime) cannot be set.
std::string Checkpoint::version() const {
  std::string version;
  for (const auto& file : files_) {
    if (file->memory) continue;
    const struct stat& of = file->opened;
    version += fmt::format("{}:{}:{}:{}.{};", of.st_dev, of.st_ino, of.st_size, of.st_ctim.tv_sec,
                           of.st_ctim.tv_nsec);
  }
  return version;
}

Status Checkpoint::unchanged() const {
  for (const auto& file : files_) {
    if (file->memory) continue;
    struct stat now {};
    if (::fstat(file->fd, &now) != 0 || now.st_size != file->opened.st_size ||
        now.st_mtim.tv_sec != file->opened.st_mtim.tv_sec ||
        now.st_mtim.tv_nsec != file->opened.st_mtim.tv_nsec)
      return fail(Code::kCorrupt,
                  fmt::format("{}: changed while it was read: try again", file->path));
  }
  return {};
}

const std::string& Checkpoint::choose(std::span<const std::string> names) const {
  for (const std::string& name : names)
    if (find(name)) return name;
  for (const std::string& name : names) {
    const std::string first_part = name.substr(0, name.find('.') + 1);  // "" without a dot
    if (first_part.empty()) continue;
    const auto after = tensors_.lower_bound(first_part);
    if (after != tensors_.end() && after->first.starts_with(first_part)) return name;
  }
  return names.front();
}

}  // namespace itif::model
