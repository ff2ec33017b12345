// Requests to the checker of models: one packet of JSON, with the descriptor of the pipe for the
// answer. The answer is {"ok": true} or {"code": NAME, "message": TEXT}, up to the pipe's end.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "control/file.h"

namespace itif::serving {

inline constexpr int kCheckerSocket = 3;  // the checker's descriptor
inline constexpr size_t kMaxCheckBytes = 64 * 1024;
inline constexpr size_t kMaxAnswerBytes = 64 * 1024;

// Returns false if the other end is closed.
bool send_request(int socket, const std::string& request, int answers);

struct CheckRequest {
  std::string text;
  control::Descriptor answers;
};
// Waits for a request. Returns nothing if the other end is closed.
std::optional<CheckRequest> receive_request(int socket);

}  // namespace itif::serving
