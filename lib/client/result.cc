#include "client/result.h"

#include <fmt/format.h>

#include <cstring>

#include "wire/classes.h"
#include "wire/payload.h"

namespace itif::client {
namespace {

template <class T>
Result<std::vector<T>> decode_values(std::span<const std::byte> result, const char* what) {
  if (result.size() % sizeof(T) != 0)
    return fail(Code::kCorrupt, fmt::format("a result of {} bytes is not an array of {}-byte {}",
                                            result.size(), sizeof(T), what));
  std::vector<T> values(result.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), result.data(), result.size());
  return values;
}

}  // namespace

Result<std::vector<ClassResult>> decode_classes(std::span<const std::byte> result) {
  std::vector<ClassResult> classes;
  wire::ClassReader reader(result);
  for (wire::ClassEntry entry; reader.next(entry);)
    classes.push_back({entry.index, entry.probability, std::string(entry.name)});
  if (!reader.ok())
    return fail(Code::kCorrupt, fmt::format("class {} of a result of {} bytes is cut short or "
                                            "malformed: server and client disagree on the format",
                                            classes.size(), result.size()));
  return classes;
}

Result<std::vector<uint32_t>> decode_tokens(std::span<const std::byte> result) {
  return decode_values<uint32_t>(result, "token ids");
}

Result<std::string> decode_text(std::span<const std::byte> result) {
  std::string text(reinterpret_cast<const char*>(result.data()), result.size());
  if (!wire::utf8_valid(text))
    return fail(Code::kCorrupt, fmt::format("a text of {} bytes is not UTF-8", result.size()));
  return text;
}

Result<std::vector<float>> decode_f32(std::span<const std::byte> result) {
  return decode_values<float>(result, "floats");
}

}  // namespace itif::client
