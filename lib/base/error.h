// Errors of start-up and control: a code and one sentence that says what was wrong, where, and what
// to do. The data plane does not use these: it ends a datagram with a drop reason and a request with
// a wire status.
#pragma once

#include <expected>
#include <string>
#include <utility>

namespace itif {

enum class Code {
  kInvalidArgument,    // the caller's input is wrong: fix it and call again
  kNotFound,           // a file, tenant, group or key that is not there
  kAlreadyExists,      // a name that is taken
  kPermission,         // the operating system or a key said no
  kResourceExhausted,  // memory, slots, disk, hugepages
  kUnavailable,        // busy or not started: the same call may succeed later
  kUnsupported,        // well-formed, but this build or device cannot
  kCorrupt,            // a file that is truncated or contradicts itself
  kInternal,           // a defect of ours
};

// The code's name as it stands in JSON and logs: "invalid_argument", ….
const char* code_name(Code code);

struct Error {
  Code code = Code::kInternal;
  std::string message;
};

template <class T>
using Result = std::expected<T, Error>;
using Status = std::expected<void, Error>;

inline std::unexpected<Error> fail(Code code, std::string message) {
  return std::unexpected<Error>(Error{code, std::move(message)});
}

// "<strerror(errno_value)>" without the thread-unsafe buffer.
std::string errno_text(int errno_value);

}  // namespace itif

// Returns from the enclosing function with the error of `expression`, if it has one.
#define ITIF_TRY(expression)                                                     \
  do {                                                                           \
    if (auto itif_try_result = (expression); !itif_try_result)                   \
      return std::unexpected(std::move(itif_try_result.error()));                \
  } while (0)

// Declares `declaration` from the value of `expression`, or returns its error.
#define ITIF_ASSIGN(declaration, expression) \
  ITIF_ASSIGN_IMPL(ITIF_CONCAT(itif_result_, __LINE__), declaration, expression)
#define ITIF_ASSIGN_IMPL(temporary, declaration, expression)                     \
  auto temporary = (expression);                                                 \
  if (!temporary) return std::unexpected(std::move(temporary.error()));          \
  declaration = std::move(*temporary)
#define ITIF_CONCAT(a, b) ITIF_CONCAT_IMPL(a, b)
#define ITIF_CONCAT_IMPL(a, b) a##b
