#include "context.h"

#include <fmt/format.h>

#include <cstdio>

#include "base/units.h"
#include "progress.h"

namespace itif::ctl {

using nlohmann::json;

std::string printable(const std::string& text) {
  std::string out = text;
  for (char& c : out) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  }
  return out;
}

int Context::fail(int exit_code, const Error& error) const {
  if (globals.json) {
    json document = results_;
    document["error"] = {{"code", code_name(error.code)}, {"message", error.message}};
    print_json(document);
  } else {
    fmt::print(stderr, "itifctl: {}\n", printable(error.message));
  }
  return exit_code;
}

Context::Failure Context::failure_of(const control::CallError& error) {
  switch (error.kind) {
    case control::CallError::Kind::kUnreachable: return {kUnreachable, error.error};
    case control::CallError::Kind::kTimeout: return {kTimedOut, error.error};
    case control::CallError::Kind::kRefused: return {kRefused, error.error};
  }
  return {kRefused, error.error};
}

void Context::print_json(const json& document) const {
  fmt::print("{}\n", document.dump(2, ' ', false, json::error_handler_t::replace));
}

uint64_t Context::timeout_ns(uint64_t otherwise) const {
  if (globals.timeout.empty()) return otherwise;
  return parse_duration_ns(globals.timeout).value_or(otherwise);  // the command line was checked
}

std::expected<control::Client*, Context::Failure> Context::connect(uint64_t timeout_ns) {
  if (client_) return client_.get();
  const auto wrong = [](int exit_code, Error error) {
    return std::unexpected(Failure{exit_code, std::move(error)});
  };
  control::ClientOptions options;
  options.endpoint = globals.endpoint;
  if (!globals.server_key.empty()) {
    auto key = control::parse_public_key(globals.server_key);
    if (!key) return wrong(kLocalFile, key.error());
    options.server_key = *key;
  }
  if (!globals.client_key_file.empty()) {
    auto pair = control::read_key_pair(globals.client_key_file);
    if (!pair) return wrong(kLocalFile, pair.error());
    options.client_key = *pair;
  }
  options.connect_timeout_ns = std::min(options.connect_timeout_ns, timeout_ns);
  auto connected = control::Client::connect(options, clock_);
  if (!connected) {
    const bool usage = connected.error().error.code == Code::kInvalidArgument;
    return usage ? wrong(kUsage, connected.error().error)
                 : std::unexpected(failure_of(connected.error()));
  }
  client_ = std::move(*connected);
  return client_.get();
}

std::expected<json, int> Context::call_with(const std::string& op, const json& args,
                                            uint64_t timeout_ns,
                                            const control::Progress& progress) {
  const auto failed = [this](const Failure& failure) {
    return std::unexpected(fail(failure.exit_code, failure.error));
  };
  auto connected = connect(this->timeout_ns(UINT64_MAX));
  if (!connected) return failed(connected.error());
  auto answer = (*connected)
                    ->call(op, args.is_null() ? json::object() : args, this->timeout_ns(timeout_ns),
                           progress);
  if (!answer) return failed(failure_of(answer.error()));
  return *answer;
}

std::optional<json> Context::try_call(const std::string& op, uint64_t timeout_ns,
                                      const json& args) {
  auto connected = connect(timeout_ns);
  if (!connected) return std::nullopt;
  auto answer = (*connected)->call(op, args.is_null() ? json::object() : args, timeout_ns, nullptr);
  return answer ? std::optional(std::move(*answer)) : std::nullopt;
}

std::expected<json, int> Context::call(const std::string& op, const json& args,
                                       uint64_t timeout_ns) {
  return call_with(op, args, timeout_ns, nullptr);
}

std::expected<json, int> Context::call_long(const std::string& op, const json& args) {
  ProgressDisplay display(!globals.json);
  return call_with(op, args, kLoadTimeoutNs, [&](const std::string& stage, double fraction) {
    display.show(printable(stage), fraction);
  });
}

}  // namespace itif::ctl
