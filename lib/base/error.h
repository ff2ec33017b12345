// Errors of start-up and control: a code and one sentence that states the error, its place and the
// remedy. The data plane does not use them: it ends a datagram with a drop reason and a request
// with a wire status.
#pragma once

#include <expected>
#include <string>
#include <utility>

namespace itif {

enum class Code {
  kInvalidArgument,    // the caller's input is wrong: fix it and call again
  kNotFound,           // a file, tenant, group or key does not exist
  kAlreadyExists,      // the name is taken
  kPermission,         // the operating system denied access, or a key is not authorised
  kResourceExhausted,  // out of memory, slots, disk or hugepages
  kUnavailable,        // busy or not started: the same call may succeed later
  kUnsupported,        // well-formed, but this build or device lacks it
  kCorrupt,            // a file is truncated or contradicts itself
  kInternal,           // a bug in itif
};

// Returns the code's name in JSON and logs: "invalid_argument", ….
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

// A thread-safe strerror().
std::string errno_text(int errno_value);

}  // namespace itif

// Returns from the enclosing function with the error of `expression`, if it has one.
#define ITIF_TRY(expression)                                      \
  do {                                                            \
    if (auto itif_try_result = (expression); !itif_try_result)    \
      return std::unexpected(std::move(itif_try_result.error())); \
  } while (0)

// Declares `declaration` from the value of `expression`, or returns its error.
#define ITIF_ASSIGN(declaration, expression) \
  ITIF_ASSIGN_IMPL(ITIF_CONCAT(itif_result_, __LINE__), declaration, expression)
#define ITIF_ASSIGN_IMPL(temporary, declaration, expression)            \
  auto temporary = (expression);                                        \
  if (!temporary) return std::unexpected(std::move(temporary.error())); \
  declaration = std::move(*temporary)
#define ITIF_CONCAT(a, b) ITIF_CONCAT_IMPL(a, b)
#define ITIF_CONCAT_IMPL(a, b) a##b
