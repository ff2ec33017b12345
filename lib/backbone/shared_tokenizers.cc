#include "backbone/shared_tokenizers.h"

#include <algorithm>
#include <array>
#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "json/json_file.h"
#include "model/content_hash.h"
#include "text/load_tokenizer.h"
#include "text/tokenizer_class.h"

namespace itif::backbone {
namespace {

namespace fs = std::filesystem;
using text::Tokenizer;

// Larger files are not compared: the tokenizer is then loaded on its own.
constexpr size_t kMaxFileBytes = size_t{256} << 20;
// No tokenizer reads these, and they differ between fine-tunes. The tokenizer's class, which
// config.json may name, is compared on its own.
constexpr std::array<std::string_view, 6> kForeignFiles = {
    "config.json",        "generation_config.json", "preprocessor_config.json",
    "trainer_state.json", "training_args.json",     "model.safetensors.index.json"};

bool may_be_of_tokenizer(const fs::path& path) {
  static constexpr std::array<std::string_view, 4> kExtensions = {".json", ".txt", ".model",
                                                                  ".spm"};
  return std::ranges::count(kExtensions, path.extension().string()) > 0 &&
         std::ranges::count(kForeignFiles, path.filename().string()) == 0;
}

// Returns nullopt if the files cannot be compared: the loader then reports why, or succeeds.
std::optional<model::ContentId> content_of(const model::ContentKey& key,
                                           const std::string& directory) {
  std::error_code error;
  std::vector<fs::path> paths;
  for (fs::directory_iterator at(directory, error), end; !error && at != end; at.increment(error))
    if (may_be_of_tokenizer(at->path())) paths.push_back(at->path());
  if (error) return std::nullopt;
  std::ranges::sort(paths);
  const auto class_name = text::read_tokenizer_class(directory);
  if (!class_name) return std::nullopt;
  model::ContentHash hash(key);
  const auto add = [&hash](const std::string& text) {
    hash.add(uint64_t{text.size()});
    hash.add(std::as_bytes(std::span(text)));
  };
  add(*class_name);
  for (const fs::path& path : paths) {
    const auto text = json_file::read_text_file(path, kMaxFileBytes);
    if (!text) return std::nullopt;
    add(path.filename());
    add(*text);
  }
  return hash.finish();
}

class Tokenizers {
 public:
  // Waits while another thread loads a tokenizer from equal files.
  Result<std::shared_ptr<const Tokenizer>> load(const std::string& directory) {
    const auto content = content_of(key_, directory);
    if (!content) return make(directory);
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return std::ranges::count(loading_, *content) == 0; });
      if (auto known = find(*content)) return known;
      loading_.push_back(*content);
    }
    struct Guard {  // also if the loader throws
      Tokenizers& all;
      const model::ContentId& content;
      ~Guard() {
        {
          const std::lock_guard lock(all.mutex_);
          std::erase(all.loading_, content);
        }
        all.changed_.notify_all();
      }
    } guard{*this, *content};
    ITIF_ASSIGN(std::shared_ptr<const Tokenizer> made, make(directory));
    // A file that changes during the load must not stand for the old content.
    if (content_of(key_, directory) == content) keep(*content, made);
    return made;
  }

 private:
  static Result<std::shared_ptr<const Tokenizer>> make(const std::string& directory) {
    ITIF_ASSIGN(std::shared_ptr<const Tokenizer> made, text::load_tokenizer(directory));
    return made;
  }
  // REQUIRES: mutex_ is held.
  std::shared_ptr<const Tokenizer> find(const model::ContentId& content) {
    for (const auto& [id, tokenizer] : entries_)
      if (id == content) return tokenizer.lock();
    return nullptr;
  }
  void keep(const model::ContentId& content, const std::shared_ptr<const Tokenizer>& tokenizer) {
    const std::lock_guard lock(mutex_);
    std::erase_if(entries_, [&](const auto& entry) {
      return entry.second.expired() || entry.first == content;
    });
    entries_.emplace_back(content, tokenizer);
  }

  const model::ContentKey key_;
  std::mutex mutex_;
  std::condition_variable changed_;  // loading_ has become smaller
  // Guarded by mutex_.
  std::vector<std::pair<model::ContentId, std::weak_ptr<const Tokenizer>>> entries_;
  std::vector<model::ContentId> loading_;
};

}  // namespace

Result<std::shared_ptr<const Tokenizer>> load_shared_tokenizer(const std::string& directory) {
  static Tokenizers of_process;
  return of_process.load(directory);
}

}  // namespace itif::backbone
