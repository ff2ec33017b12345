// itif-loadgen's command line, parsed and checked.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "client/types.h"
#include "wire/header.h"
#include "wire/payload.h"

namespace itif::loadgen {

struct Target {
  std::string name;
  client::Credential credential;
  double weight = 1;  // share of the requests, relative to other targets
};

enum class Arrivals : uint8_t { kPoisson, kConstant, kClosed };
const char* arrivals_name(Arrivals arrivals);

// Distribution of tokens per request.
struct Lengths {
  enum class Kind : uint8_t { kFixed, kUniform, kNormal };
  Kind kind = Kind::kFixed;
  double first = 128;  // fixed: the length; uniform: the minimum; normal: the mean
  double second = 0;   // uniform: the maximum; normal: the standard deviation
};

// The deadline of each request, from its due time.
struct Deadlines {
  enum class Kind : uint8_t { kNone, kFixed, kUniform, kByLength };
  Kind kind = Kind::kNone;
  uint64_t first_us = 0;   // fixed: the deadline; uniform: the minimum; by length: for any length
  uint64_t second_us = 0;  // uniform: the maximum; by length: for each token, added
};

// A search for the highest rate at which at most this percentage of the requests stays without an
// answer in time.
struct Goal {
  std::string name;         // "NDR", or "PDR 0.5 %"
  double loss_percent = 0;  // 0: not one request
};

// A search tries no rate at which a trial has fewer requests: it would decide nothing.
constexpr double kFewestRequests = 10;

// Rates to measure one after another, equally far apart.
struct Sweep {
  double from = 0;
  double to = 0;
  uint32_t steps = 0;  // number of rates; 0: no sweep
  double rate(uint32_t step) const noexcept {
    return steps < 2 ? from : from + (to - from) * step / (steps - 1);
  }
};

struct Options {
  std::string server;
  uint16_t port = wire::kDefaultPort;
  std::string local_address;
  std::vector<Target> targets;

  Arrivals arrivals = Arrivals::kPoisson;
  double rate = 100;         // requests/s of all tenants and threads
  uint32_t concurrency = 0;  // closed loop: requests in flight of all threads
  uint64_t duration_ns = 10'000'000'000;
  uint64_t warmup_ns = 0;
  uint64_t drain_ns = 5'000'000'000;
  uint64_t max_requests = 0;  // 0: limited only by the duration

  wire::PayloadKind payload_kind = wire::PayloadKind::kTokensU16;
  Lengths lengths;
  uint32_t vocab = 30522;
  std::string texts_file;
  std::vector<std::string> texts;
  wire::ImagePrefix image;  // size of image payloads
  wire::ResultKind result_kind = wire::ResultKind::kDefault;
  uint32_t fragment_bytes = wire::kDefaultFragmentBytes;
  Deadlines deadlines;
  uint16_t flags = 0;  // wire::Flag: --no-cache, --truncate

  client::RetryPolicy retry;
  uint64_t seed = 1;
  uint32_t threads = 1;
  uint32_t flows = 1;              // source ports per thread
  uint32_t max_in_flight = 16384;  // per thread
  bool busy = false;               // spin instead of sleeping
  uint32_t busy_poll_us = 0;

  // True if the requests are token ids, so that their lengths are known.
  bool has_lengths() const noexcept {
    return payload_kind == wire::PayloadKind::kTokensU16 ||
           payload_kind == wire::PayloadKind::kTokensU32;
  }

  bool flood = false;
  double malform = 0;  // share of damaged datagrams in a flood
  // A flood without a rate sends as fast as possible; a search without one finds its bounds.
  bool rate_given = false;
  bool null_sink = false;

  std::vector<Goal> goals;       // not empty: a search for the highest rate
  double precision_percent = 1;  // of the search
  uint32_t repeats = 3;          // of the search, for each goal
  Sweep sweep;
  std::string plot_file;  // of the sweep, FILE.svg; empty: none

  std::string eal_args;  // not empty: DPDK instead of sockets
  std::string eal_device;
  std::string server_mac;  // empty: resolved

  std::string json_file;  // "-": standard output; the table then goes to standard error
  bool quiet = false;     // no live line

  std::string pcap_file;           // capture of the datagrams; empty: none
  uint64_t pcap_packets = 100000;  // most that it holds
};

// The result of parsing: options to run with or, if !run, a text to print and the exit code.
struct Command {
  bool run = false;
  Options options;
  int exit_code = 0;  // 0 for --help and --version, 2 for a usage error
  std::string text;
};
// `arguments` excludes the program's name. Reads the files that they name.
Command parse_command(std::span<const std::string> arguments);

// "name:id:key[:epoch[:auth]]", key as 32 hexadecimal digits. Errors: kInvalidArgument.
Result<Target> parse_target(const std::string& text);
// Reads JSON as `itifctl --json tenant add` prints it: {"tenant": {"id", "name", "auth",
// "key_epoch", …}, "key"}. Also accepts all fields in one object, "epoch" for "key_epoch", an array
// of objects, or an array under "tenants". Errors: kNotFound, kInvalidArgument; the message names
// file and field.
Result<std::vector<Target>> read_targets(const std::string& path);
// "image_u8:HEIGHTxWIDTHxCHANNELS", or image_f32. Errors: kInvalidArgument.
Status parse_image(const std::string& text, wire::PayloadKind& kind, wire::ImagePrefix& image);
// "T" or "fixed:T", "uniform:T-T", "length:T,T", as in 25ms; a colon may replace '-' and ','.
// Errors: kInvalidArgument.
Result<Deadlines> parse_deadlines(const std::string& text);
// Returns the latest deadline that the longest request can have; 0: none has one.
uint64_t max_budget_us(const Deadlines& deadlines);
// "fixed:N", "uniform:A-B", "normal:MEAN,DEVIATION"; a colon may replace '-' and ','. Errors:
// kInvalidArgument.
Result<Lengths> parse_lengths(const std::string& text);
// "FROM:TO:STEPS", in requests/s. Errors: kInvalidArgument.
Result<Sweep> parse_sweep(const std::string& text);
// Returns `text` as the percentage of --pdr. Errors: kInvalidArgument.
Result<Goal> parse_pdr(const std::string& text);
// Checks the options of searches and sweeps against the others. Errors: kInvalidArgument; the
// message names the option.
Status check_trials(const Options& options);

}  // namespace itif::loadgen
