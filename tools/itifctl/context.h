// What every command of itifctl shares: the global options, the connection, how results and errors
// are told, exit codes.
#pragma once

#include <cstdint>
#include <expected>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "base/clock.h"
#include "base/error.h"
#include "control/client.h"

namespace itif::ctl {

// docs/control.md lists them: scripts depend on the numbers.
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
  std::string timeout;          // "10s"; empty: the command's own
  bool json = false;
};

// How long to wait for an answer, unless --timeout says otherwise.
constexpr uint64_t kQuickTimeoutNs = 10'000'000'000;
constexpr uint64_t kLoadTimeoutNs = 600'000'000'000;  // between two progress messages

class Context {
 public:
  explicit Context(const Clock& clock) : clock_(clock) {}

  Globals globals;
  std::function<int()> action;  // the chosen command; returns the exit code

  // Calls the server. On failure the error has been told and the exit code is returned.
  std::expected<nlohmann::json, int> call(const std::string& op, const nlohmann::json& args = {},
                                          uint64_t timeout_ns = kQuickTimeoutNs);
  // The same with a progress display, for operations that load a model.
  std::expected<nlohmann::json, int> call_long(const std::string& op, const nlohmann::json& args);

  // "itifctl: message" on standard error, or {"error":…} on standard output with --json.
  int fail(int exit_code, const Error& error) const;
  // One JSON document, indented; with --json only.
  void print_json(const nlohmann::json& document) const;
  uint64_t timeout_ns(uint64_t otherwise) const;
  const Clock& clock() const { return clock_; }

 private:
  std::expected<control::Client*, int> client();
  std::expected<nlohmann::json, int> call_with(const std::string& op, const nlohmann::json& args,
                                               uint64_t timeout_ns,
                                               const control::Progress& progress);
  int fail(const control::CallError& error) const;

  const Clock& clock_;
  std::unique_ptr<control::Client> client_;
};

// Text of the server's, safe on a terminal: control characters become '?'.
std::string printable(const std::string& text);

}  // namespace itif::ctl
