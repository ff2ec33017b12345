#include "runtime/backbone.h"

#include <fmt/format.h>

namespace itif::runtime {
namespace {

const Family* const kFamilies[] = {
    &kBertFamily,
};

}  // namespace

Result<const Family*> find_family(std::string_view name) {
  std::string known;
  for (const Family* family : kFamilies) {
    if (family->name == name) return family;
    known += (known.empty() ? "" : ", ") + std::string(family->name);
  }
  return fail(Code::kUnsupported,
              fmt::format("backbone family must be one of {}, found '{}'", known, name));
}

}  // namespace itif::runtime
