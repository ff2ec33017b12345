#include "base/error.h"

#include <system_error>

namespace itif {

const char* code_name(Code code) {
  switch (code) {
    case Code::kInvalidArgument: return "invalid_argument";
    case Code::kNotFound: return "not_found";
    case Code::kAlreadyExists: return "already_exists";
    case Code::kPermission: return "permission";
    case Code::kResourceExhausted: return "resource_exhausted";
    case Code::kUnavailable: return "unavailable";
    case Code::kUnsupported: return "unsupported";
    case Code::kCorrupt: return "corrupt";
    case Code::kInternal: return "internal";
  }
  return "internal";
}

std::string errno_text(int errno_value) { return std::generic_category().message(errno_value); }

}  // namespace itif
