#include "serving/model_contents.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sodium/core.h>
#include <sodium/crypto_generichash.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <map>
#include <mutex>
#include <span>
#include <string_view>

#include "base/check.h"
#include "control/file.h"
#include "control/hex.h"
#include "json/json_file.h"
#include "model/adapter.h"
#include "model/checkpoint.h"
#include "model/sha256_pieces.h"

namespace itif::serving {
namespace {

namespace fs = std::filesystem;
using model::Checkpoint;

constexpr size_t kDigestBytes = 32, kStampBytes = 16;
constexpr size_t kReadBytes = 64 << 10;
// Models whose weights' hashes are kept: more than an appliance has tenants.
constexpr size_t kMostKept = 4096;

class Hash {
 public:
  explicit Hash(size_t bytes) : bytes_(bytes) {
    CHECK(sodium_init() >= 0);  // finds the CPU's fastest implementation
    crypto_generichash_init(&state_, nullptr, 0, bytes_);
  }
  void add(std::span<const std::byte> bytes) {
    crypto_generichash_update(&state_, reinterpret_cast<const unsigned char*>(bytes.data()),
                              bytes.size());
  }
  void add(uint64_t number) { add(std::as_bytes(std::span(&number, 1))); }
  // With its length, so that no two sequences of texts are added alike.
  void add(std::string_view text) {
    add(uint64_t{text.size()});
    add(std::as_bytes(std::span(text)));
  }
  std::string finish() {
    std::vector<std::byte> hash(bytes_);
    crypto_generichash_final(&state_, reinterpret_cast<unsigned char*>(hash.data()), bytes_);
    return control::to_hex(hash);
  }

 private:
  const size_t bytes_;
  crypto_generichash_state state_;
};

// Returns true for files that the parsers of configurations and tokenizers may read (text/,
// model/): too many rather than too few. Training writes the excluded ones, and nothing reads them.
bool may_be_parsed(const fs::path& path) {
  static constexpr std::array<std::string_view, 4> kExtensions = {".json", ".txt", ".model",
                                                                  ".spm"};
  static constexpr std::array<std::string_view, 2> kOfTraining = {"trainer_state.json",
                                                                  "training_args.json"};
  return std::ranges::count(kExtensions, path.extension().string()) > 0 &&
         std::ranges::count(kOfTraining, path.filename().string()) == 0;
}

bool may_be_read(const fs::path& path) {
  const std::string extension = path.extension().string();
  return may_be_parsed(path) || extension == ".safetensors" || extension == ".jsonl";
}

// Thrown to end the reading of files.
struct GivenUp {};

void check(const std::function<bool()>& gives_up) {
  if (gives_up && gives_up()) throw GivenUp();
}

// An index of shards says only where tensors are.
bool counts(const fs::path& path) {
  return may_be_parsed(path) && !path.filename().string().ends_with(".index.json");
}

Status add_file(Hash& hash, const fs::path& path, const std::function<bool()>& gives_up) {
  const control::Descriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd && errno == EACCES) return {};  // the load has failed if it needs the file
  struct stat info {};
  if (!fd || ::fstat(fd.get(), &info) != 0)
    return fail(Code::kCorrupt, fmt::format("{}: {}", path.string(), errno_text(errno)));
  if (!S_ISREG(info.st_mode) || static_cast<uint64_t>(info.st_size) > kMaxParsedBytes) return {};
  hash.add(path.filename().string());
  hash.add(static_cast<uint64_t>(info.st_size));
  std::array<std::byte, kReadBytes> bytes;
  auto left = static_cast<uint64_t>(info.st_size);
  while (left > 0) {
    check(gives_up);
    const ssize_t got = ::read(fd.get(), bytes.data(), std::min<uint64_t>(bytes.size(), left));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0)
      return fail(Code::kCorrupt,
                  fmt::format("{}: changed while it was read: try again", path.string()));
    hash.add(std::span(bytes).first(static_cast<size_t>(got)));
    left -= static_cast<uint64_t>(got);
  }
  return {};
}

void add_bytes(Hash& hash, std::span<const std::byte> bytes) {
  for (const model::Sha256& each : model::sha256_pieces(bytes)) hash.add(std::span(each));
}

Result<std::string> hash_tensors(const Checkpoint& checkpoint,
                                 const std::function<bool()>& gives_up) {
  Hash hash(kDigestBytes);
  for (const std::string& name : checkpoint.names()) {
    const model::TensorEntry& entry = *checkpoint.find(name);
    hash.add(name);
    hash.add(entry.dtype_text);
    hash.add(uint64_t{entry.dims.size()});
    for (const uint64_t dim : entry.dims) hash.add(dim);
    ITIF_TRY(checkpoint.scan_whole(name, [&](std::span<const std::byte> bytes) {
      check(gives_up);
      add_bytes(hash, bytes);
    }));
  }
  ITIF_TRY(checkpoint.unchanged());
  return hash.finish();
}

// The hashes of weights by Checkpoint::version(). Adapters have a base in common.
class KnownWeights {
 public:
  Result<std::string> hash(const Checkpoint& checkpoint, const std::function<bool()>& gives_up) {
    const std::string version = checkpoint.version();
    {
      const std::lock_guard lock(mutex_);
      if (const auto known = hashes_.find(version); known != hashes_.end()) return known->second;
    }
    ITIF_ASSIGN(std::string hash, hash_tensors(checkpoint, gives_up));
    const std::lock_guard lock(mutex_);
    if (hashes_.size() >= kMostKept) hashes_.clear();
    hashes_[version] = hash;
    return hash;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::string> hashes_;  // guarded by mutex_
};

Status add_weights(Hash& hash, const Checkpoint& checkpoint,
                   const std::function<bool()>& gives_up) {
  static KnownWeights of_process;
  ITIF_ASSIGN(const std::string weights, of_process.hash(checkpoint, gives_up));
  hash.add(weights);
  return {};
}

// The folders of sentence-transformers' modules in a model's directory.
std::vector<std::string> module_folders(const std::string& directory) {
  std::vector<std::string> folders;
  const auto text =
      json_file::read_text_file(directory + "/modules.json", json_file::kMaxJsonFileBytes);
  const auto modules = text ? json_file::parse_json(*text, directory)
                            : Result<nlohmann::json>(std::unexpected(text.error()));
  if (!modules || !modules->is_array()) return folders;
  for (const nlohmann::json& module : *modules) {
    if (!module.is_object() || !module.contains("path") || !module["path"].is_string()) continue;
    const auto folder = module["path"].get<std::string>();
    const bool is_plain = !folder.empty() && folder != "." && folder != ".." &&
                          folder.find('/') == folder.npos && folder.find('\0') == folder.npos;
    if (is_plain) folders.push_back(folder);
  }
  return folders;
}

Status add_directory(Hash& hash, const std::string& directory,
                     const std::function<bool()>& gives_up) {
  std::error_code error;
  std::vector<fs::path> paths;
  for (fs::directory_iterator at(directory, error), end; !error && at != end; at.increment(error)) {
    std::error_code ignored;
    if (counts(at->path()) && at->is_regular_file(ignored)) paths.push_back(at->path());
  }
  // A module without files, Normalize for example, may lack its folder.
  if (error == std::errc::no_such_file_or_directory) return {};
  if (error) return fail(Code::kCorrupt, fmt::format("{}: {}", directory, error.message()));
  std::ranges::sort(paths);
  for (const fs::path& path : paths) ITIF_TRY(add_file(hash, path, gives_up));
  auto weights = Checkpoint::open(directory);
  if (!weights && weights.error().code == Code::kNotFound) return {};  // of a module without any
  if (!weights) return std::unexpected(weights.error());
  return add_weights(hash, *weights, gives_up);
}

}  // namespace

std::vector<std::string> file_states(const model::ModelFiles& files) {
  std::vector<std::string> states;
  const auto add = [&](const fs::path& path) {
    struct stat info {};
    if (::stat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) return;
    states.push_back(fmt::format("{} {} {} {} {}.{} {}.{}", path.string(), info.st_dev, info.st_ino,
                                 info.st_size, info.st_mtim.tv_sec, info.st_mtim.tv_nsec,
                                 info.st_ctim.tv_sec, info.st_ctim.tv_nsec));
  };
  const auto add_all = [&](const fs::path& directory, const auto& on_directory) {
    std::error_code error, ignored;
    for (fs::directory_iterator at(directory, error), end; !error && at != end; at.increment(error))
      if (at->is_directory(ignored))
        on_directory(at->path());
      else if (may_be_read(at->path()))
        add(at->path());
  };
  for (const std::string& directory : {files.directory, files.base})
    if (!directory.empty())
      add_all(directory, [&](const fs::path& folder) {  // perhaps a module's
        add_all(folder, [](const fs::path&) {});
      });
  std::ranges::sort(states);
  return states;
}

std::string file_stamp(const model::ModelFiles& files) {
  Hash hash(kStampBytes);
  for (const std::string& state : file_states(files)) hash.add(state);
  return hash.finish();
}

Result<std::string> content_digest(const model::ModelFiles& files,
                                   const std::function<bool()>& gives_up) try {
  Hash hash(kDigestBytes);
  hash.add("itif model contents 1");
  const std::string& directory = files.whole_model();
  ITIF_TRY(add_directory(hash, directory, gives_up));
  for (const std::string& folder : module_folders(directory)) {
    hash.add(folder);
    ITIF_TRY(add_directory(hash, directory + "/" + folder, gives_up));
  }
  if (files.base.empty()) return hash.finish();
  ITIF_TRY(add_file(hash, fs::path(files.directory) / model::Adapter::kConfigFile, gives_up));
  ITIF_ASSIGN(const Checkpoint adapter,
              Checkpoint::open_file(files.directory, model::Adapter::kWeightsFile));
  ITIF_TRY(add_weights(hash, adapter, gives_up));
  return hash.finish();
} catch (const GivenUp&) {
  return fail(Code::kUnavailable, "reading " + directories_text(files) + " was given up");
}

std::string directories_text(const model::ModelFiles& files) {
  if (files.base.empty()) return files.directory;
  return fmt::format("{} over {}", files.directory, files.base);
}

}  // namespace itif::serving
