// Shared by all commands of itifctl: global options, the connection, printing of results and
// errors, exit codes.
#pragma once

#include <cstdint>
#include <expected>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/error.h"
#include "control/client.h"

namespace itif::ctl {

// Documented in docs/control.md. Do not change the numbers: scripts depend on them.
enum ExitCode : int {
  kDone = 0,
  kRefused = 1,
  kUsage = 2,
  kUnreachable = 3,
  kTimedOut = 4,
  kLocalFile = 5,
};

struct Globals {
  std::string endpoint = "ipc:///run/itif/control.sock";
  std::string server_key;       // hex or .pub file
  std::string client_key_file;  // made by keygen
  std::string timeout;          // "10s"; empty: the command's default
  bool json = false;
};

// Default timeouts of an answer; --timeout overrides them.
constexpr uint64_t kQuickTimeoutNs = 10'000'000'000;
constexpr uint64_t kLoadTimeoutNs = 600'000'000'000;  // between two progress messages

class Context {
 public:
  explicit Context(const Clock& clock) : clock_(clock) {}

  Globals globals;
  std::function<int()> action;  // the chosen command; returns the exit code

  // Calls the server. On failure prints the error and returns the exit code.
  std::expected<nlohmann::json, int> call(const std::string& op, const nlohmann::json& args = {},
                                          uint64_t timeout_ns = kQuickTimeoutNs);
  // As call(), but prints nothing: nullopt if no server answers.
  std::optional<nlohmann::json> try_call(const std::string& op, uint64_t timeout_ns,
                                         const nlohmann::json& args = {});
  // As call(), with a progress display, for operations that load a model.
  std::expected<nlohmann::json, int> call_long(const std::string& op, const nlohmann::json& args);

  // Prints "itifctl: message" to standard error, or {"error":…} to standard output with --json.
  // Returns exit_code. The object with --json also has the members of the results kept so far.
  int fail(int exit_code, const Error& error) const;
  void keep_results(nlohmann::json results) { results_ = std::move(results); }
  // Prints an indented JSON document. For --json only.
  void print_json(const nlohmann::json& document) const;
  uint64_t timeout_ns(uint64_t otherwise) const;
  const Clock& clock() const { return clock_; }

 private:
  struct Failure {
    int exit_code = kRefused;
    Error error;
  };
  std::expected<control::Client*, Failure> connect(uint64_t timeout_ns);
  std::expected<nlohmann::json, int> call_with(const std::string& op, const nlohmann::json& args,
                                               uint64_t timeout_ns,
                                               const control::Progress& progress);
  static Failure failure_of(const control::CallError& error);

  const Clock& clock_;
  std::unique_ptr<control::Client> client_;
  nlohmann::json results_ = nlohmann::json::object();
};

// Makes a server's text safe on a terminal: control characters become '?'.
std::string printable(const std::string& text);

}  // namespace itif::ctl
