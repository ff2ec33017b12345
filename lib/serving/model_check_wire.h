// The messages between itifd and the checker of models.
//
// A request is one packet of JSON, with the descriptor of the pipe for the answer. The answer is
// {"ok": true} or {"code": NAME, "message": TEXT}, up to the pipe's end. It may come from a child
// that the files of a model have taken over: itifd trusts nothing in it.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "base/error.h"
#include "control/file.h"
#include "model/model_files.h"
#include "serving/sandbox.h"

namespace itif::serving {

inline constexpr int kCheckerSocket = 3;  // the checker's descriptor
inline constexpr size_t kMaxCheckBytes = 64 * 1024;
inline constexpr size_t kMaxAnswerBytes = 64 * 1024;

// A model to check, and the limits of its sandbox.
struct ModelToCheck {
  model::ModelFiles files;
  SandboxLimits limits;
};
std::string request_for(const ModelToCheck& model);
// Errors: kInvalidArgument (not of request_for()).
Result<ModelToCheck> parse_request(const std::string& request);

// Returns the answer of a check that ended with `done`.
std::string answer_for(const Status& done);
// Returns what the check found. `directory`: the model's. Errors: those of the check; kUnavailable
// (no well-formed answer: the checker ended before).
Status parse_answer(const std::string& answer, const std::string& directory);

// Returns false if the other end is closed.
bool send_request(int socket, const std::string& request, int answers);

struct CheckRequest {
  std::string text;
  control::Descriptor answers;
};
// Waits for a request. Returns nothing if the other end is closed.
std::optional<CheckRequest> receive_request(int socket);

}  // namespace itif::serving
