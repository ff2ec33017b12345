#include "model/weight_contents.h"

#include <algorithm>
#include <bit>

namespace itif::model {
namespace {

void add_header(ContentHash& hash, DType type, const Shape& shape) {
  hash.add(uint64_t{1} + static_cast<uint64_t>(type));
  hash.add(static_cast<uint64_t>(shape.rank));
  for (size_t i = 0; i < static_cast<size_t>(shape.rank); ++i) hash.add(shape.dims[i]);
}

// A source without names: zeros.
void add_zeros(ContentHash& hash) {
  hash.add(uint64_t{0});
}

ContentHash begin(const ContentKey& key, const WeightKind& kind) {
  ContentHash hash(key);
  hash.add(uint64_t{std::bit_cast<uint32_t>(kind.fill)});
  hash.add(uint64_t{kind.sources.size()});
  return hash;
}

ContentId hash_views(const ContentKey& key, const WeightKind& kind,
                     std::span<const TensorView> sources, uint64_t max_bytes) {
  ContentHash hash = begin(key, kind);
  for (const TensorView& view : sources) {
    if (view.data == nullptr) {
      add_zeros(hash);
      continue;
    }
    add_header(hash, view.dtype, kind.source_shape);
    hash.add(std::span(view.data, std::min<uint64_t>(max_bytes, view.bytes())));
  }
  return hash.finish();
}

}  // namespace

Result<ContentId> hash_kind(const ContentKey& key, const WeightKind& kind,
                            const Checkpoint& checkpoint, uint64_t max_bytes) {
  ContentHash hash = begin(key, kind);
  for (const Source& source : kind.sources) {
    if (source.names.empty()) {
      add_zeros(hash);
      continue;
    }
    const std::string& name = checkpoint.choose(source.names);
    const TensorEntry* entry = checkpoint.find(name);
    if (entry != nullptr && entry->dtype) add_header(hash, *entry->dtype, kind.source_shape);
    ITIF_TRY(checkpoint.scan(name, kind.source_shape, max_bytes,
                             [&](std::span<const std::byte> bytes) { hash.add(bytes); }));
  }
  return hash.finish();
}

KindContent content_of(const ContentKey& key, const WeightKind& kind,
                       std::span<const TensorView> sources) {
  return {.first = hash_views(key, kind, sources, kFirstBytes),
          .whole = hash_views(key, kind, sources, UINT64_MAX)};
}

}  // namespace itif::model
