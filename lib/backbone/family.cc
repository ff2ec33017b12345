#include "backbone/family.h"

#include <fmt/format.h>

namespace itif::backbone {

// families.inc has ITIF_FAMILY(name) per name in meson.build; lib/backbone/<name>.cc defines it.
#define ITIF_FAMILY(name) \
  namespace name {        \
  const Family& family(); \
  }
#include "backbone/families.inc"
#undef ITIF_FAMILY

std::span<const Family* const> families() {
  static const Family* const all[] = {
#define ITIF_FAMILY(name) &name::family(),
#include "backbone/families.inc"
#undef ITIF_FAMILY
  };
  return all;
}

Result<const Family*> find_family(std::string_view model_type) {
  std::string known;
  for (const Family* family : families()) {
    if (family->model_type == model_type) return family;
    known += (known.empty() ? "" : ", ") + std::string(family->model_type);
  }
  return fail(Code::kUnsupported,
              fmt::format("'model_type' must be one of {}, found {}", known,
                          model_type.empty() ? "nothing" : fmt::format("\"{}\"", model_type)));
}

std::string preset_names() {
  std::string names;
  for (const Family* family : families())
    for (const Preset& preset : family->presets)
      names += (names.empty() ? "" : ", ") + std::string(preset.name);
  return names;
}

Result<const Preset*> find_preset(std::string_view name) {
  for (const Family* family : families())
    for (const Preset& preset : family->presets)
      if (preset.name == name) return &preset;
  return fail(Code::kNotFound, fmt::format("no backbone '{}'; there are {}", name, preset_names()));
}

}  // namespace itif::backbone
