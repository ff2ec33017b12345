// A library loaded by name at run time, so that programs start where it is not installed.
#pragma once

#include <dlfcn.h>
#include <fmt/format.h>

#include <string>

#include "base/error.h"

namespace itif::device::cuda {

class Library {
 public:
  // Loads a library permanently. `what`: its product, for messages. Errors: kUnsupported, with the
  // loader's message.
  static Result<Library> open(const char* name, const char* what) {
    // The toolkit's packages install here; not every loader configuration lists it.
    static constexpr const char* kFolder = "/usr/local/cuda/lib64/";
    void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      const std::string why = dlerror();
      library = dlopen(fmt::format("{}{}", kFolder, name).c_str(), RTLD_NOW | RTLD_LOCAL);
      if (library == nullptr)
        return fail(Code::kUnsupported, fmt::format("{} cannot be loaded: {}", what, why));
    }
    return Library(library, name);
  }
  // Errors: kUnsupported, the library has no such function.
  template <class Function>
  Status find(const char* name, Function& function) const {
    void* const found = dlsym(library_, name);
    if (found == nullptr)
      return fail(Code::kUnsupported, fmt::format("{} has no {}: it is too old", name_, name));
    function = reinterpret_cast<Function>(found);
    return {};
  }

 private:
  Library(void* library, const char* name) : library_(library), name_(name) {}
  void* library_;
  const char* name_;
};

}  // namespace itif::device::cuda
