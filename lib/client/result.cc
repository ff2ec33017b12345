// See result.h.
#include "client/result.h"

#include <fmt/format.h>

#include <cstring>

#include "wire/classes.h"

namespace itif::client {

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

Result<std::vector<float>> decode_f32(std::span<const std::byte> result) {
  if (result.size() % sizeof(float) != 0)
    return fail(Code::kCorrupt,
                fmt::format("a result of {} bytes is no array of 4-byte floats", result.size()));
  std::vector<float> values(result.size() / sizeof(float));
  if (!values.empty()) std::memcpy(values.data(), result.data(), result.size());
  return values;
}

}  // namespace itif::client
