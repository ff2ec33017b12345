#include "options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <fstream>
#include <map>

#include "base/units.h"
#include "client/socket_transport.h"
#include "wire/geometry.h"

namespace itif::loadgen {
namespace {

constexpr const char* kExamples = R"(
Examples:
  itif-loadgen 198.18.0.1 --tenants tenants.json --rate 500 --duration 10s
  itif-loadgen 198.18.0.1 --tenant acme:1:000102030405060708090a0b0c0d0e0f --lengths uniform:16-128
  itif-loadgen 198.18.0.1 --tenants tenants.json --concurrency 8 --texts sentences.txt --json -
  itif-loadgen 198.18.0.1 --tenants tenants.json --ndr --pdr 0.5 --duration 10s
  itif-loadgen 198.18.0.1 --tenants tenants.json --flood --malform 0.2 --duration 5s

Exit status: 0 every measured request was answered; 1 some were not, or the run could not start;
2 invalid command line.)";

// Options that are parsed after CLI11, so that errors have our messages.
struct Texts {
  std::string server;
  std::vector<std::string> tenants, tenant_files, weights;
  std::string arrivals = "poisson", duration = "10s", warmup = "0s", drain = "5s";
  std::string payload, lengths = "fixed:128", result = "default", budget, rto = "50ms";
  std::string timeout = "5s";
  std::string pdr, sweep;
  bool no_cache = false, truncate = false, eal_given = false, ndr = false;
  bool arrivals_given = false, tries_given = false, search_given = false;
  bool pcap_packets_given = false;
};

void define(CLI::App& app, Options& o, Texts& t) {
  app.footer(kExamples);
  app.add_option("server,-s,--server", t.server,
                 "the appliance: ADDRESS, NAME, ADDRESS:PORT or [IPV6]:PORT")
      ->required();
  app.add_option("-p,--port", o.port, "its UDP port, unless the address includes one")
      ->capture_default_str();
  app.add_option("--local-ip", o.local_address, "address to send from (required with --eal)");

  auto* who = app.add_option_group("Tenants");
  who->add_option("-t,--tenant", t.tenants,
                  "NAME:ID:KEY[:EPOCH[:AUTH]], or a file as for --tenants; may be repeated");
  who->add_option("--tenants", t.tenant_files,
                  "JSON file of tenants, as printed by itifctl --json tenant add; may be repeated");
  who->add_option("--weight", t.weights, "NAME=W: relative share of the requests (default 1)");

  auto* when = app.add_option_group("Arrivals");
  when->add_option("-r,--rate", o.rate, "requests/s in total over all tenants (open loop)")
      ->capture_default_str();
  when->add_option("--arrivals", t.arrivals, "poisson or constant (open loop)")
      ->capture_default_str();
  when->add_option("-c,--concurrency,--closed", o.concurrency,
                   "closed loop: keep this many requests in flight");
  when->add_option("-d,--duration", t.duration, "how long to send after the warm-up")
      ->capture_default_str();
  when->add_option("-n,--requests", o.max_requests, "stop after this many requests (0: no limit)");
  when->add_option("--warmup", t.warmup, "how long to send before measuring")
      ->capture_default_str();
  when->add_option("--drain", t.drain, "longest wait for the last answers")->capture_default_str();

  auto* what = app.add_option_group("Requests");
  what->add_option("--payload", t.payload,
                   "tokens_u16, tokens_u32, text, or random images, as in image_u8:224x224x3 or "
                   "image_f32:… (default: tokens_u16, or text with --texts)");
  what->add_option("--lengths,--tokens", t.lengths,
                   "tokens per request: fixed:N, uniform:A-B or normal:MEAN,DEVIATION")
      ->capture_default_str();
  what->add_option("--vocab", o.vocab, "token ids are random below this")->capture_default_str();
  what->add_option("--texts", o.texts_file, "file of texts, one per line, chosen at random");
  what->add_option(
          "--result", t.result,
          "default, hidden, pooled, embedding, logits, token_logits, classes, tokens or text")
      ->capture_default_str();
  what->add_option("--fragment-bytes", o.fragment_bytes, "payload bytes per datagram")
      ->capture_default_str();
  what->add_option("--budget", t.budget,
                   "deadline of each request: 25ms, uniform:10ms-50ms, or length:5ms,200us (and "
                   "200us per token)");
  what->add_flag("--no-cache", t.no_cache, "ask the server not to keep responses");
  what->add_flag("--truncate", t.truncate,
                 "let the server truncate texts that are too long for the model");

  auto* retry = app.add_option_group("Retries");
  retry
      ->add_option("--tries", o.retry.max_tries,
                   "how often an unanswered request is sent; 1: no retries")
      ->capture_default_str();
  retry
      ->add_option("--rto", t.rto,
                   "shortest wait before the first retry (longer if answers take longer); doubles "
                   "with each retry")
      ->capture_default_str();
  retry->add_option("--timeout", t.timeout, "an unanswered request is then lost")
      ->capture_default_str();
  retry
      ->add_option("--refusal-retries", o.retry.max_refusal_retries,
                   "how often a request refused by load or quota is sent again")
      ->capture_default_str();

  auto* how = app.add_option_group("Sending");
  how->add_option("--threads", o.threads, "sending threads")->capture_default_str();
  how->add_option("--flows", o.flows, "source ports per thread, for the server's RSS")
      ->capture_default_str();
  how->add_option("--max-in-flight", o.max_in_flight, "most requests in flight per thread")
      ->capture_default_str();
  how->add_flag("--busy", o.busy, "spin instead of sleeping: exact times, a whole core per thread");
  how->add_option("--busy-poll", o.busy_poll_us, "SO_BUSY_POLL of the sockets, in µs");
  how->add_option("--seed", o.seed, "seed of arrivals, lengths and payloads")
      ->capture_default_str();
  how->add_option("--eal", o.eal_args, "send through DPDK with these EAL arguments");
  how->add_option("--eal-device", o.eal_device, "DPDK port to use (default: the first)");
  how->add_option("--server-mac", o.server_mac,
                  "with --eal: the server's MAC address, which is then not resolved");

  auto* trials = app.add_option_group("Trials");
  trials->add_flag("--ndr", t.ndr,
                   "search the highest rate (up to --rate) without a lost or refused request");
  trials->add_option("--pdr", t.pdr, "search the highest rate at which at most PERCENT are lost");
  trials->add_option("--precision", o.precision_percent, "percent of the rate to be found")
      ->capture_default_str();
  trials->add_option("--repeats", o.repeats, "how often a search is repeated")
      ->capture_default_str();
  trials->add_option("--sweep", t.sweep, "FROM:TO:STEPS: measure at each of so many rates");
  trials->add_option("--plot", o.plot_file,
                     "FILE.svg: draw the sweep's latency against its rate (gnuplot)");

  auto* stress = app.add_option_group("Stress");
  stress->add_flag("--flood", o.flood,
                   "send as fast as possible (or at --rate), count the answers by type");
  stress->add_option("--malform", o.malform, "share of damaged datagrams in a flood, 0 to 1");
  stress->add_flag("--null-sink", o.null_sink,
                   "discard all datagrams, to measure this program alone");

  auto* output = app.add_option_group("Output");
  output->add_option("--json", o.json_file, "write all results to FILE; -: standard output");
  output->add_option("--pcap", o.pcap_file, "write the datagrams sent and received to FILE (pcap)");
  output->add_option("--pcap-packets", o.pcap_packets, "most datagrams of the file")
      ->capture_default_str();
  output->add_flag("-q,--quiet", o.quiet, "no live line and no notices; warnings remain");
  app.set_version_flag("--version", "itif-loadgen " ITIF_VERSION);
}

Status set_duration(const char* option, const std::string& text, uint64_t& out) {
  auto parsed = parse_duration_ns(text);
  if (!parsed)
    return fail(Code::kInvalidArgument, fmt::format("{}: {}", option, parsed.error().message));
  out = *parsed;
  return {};
}

std::unexpected<Error> usage(std::string message) {
  return fail(Code::kInvalidArgument, std::move(message));
}

Status set_kinds(Options& o, const Texts& t) {
  if (t.payload.empty()) {
    o.payload_kind =
        o.texts_file.empty() ? wire::PayloadKind::kTokensU16 : wire::PayloadKind::kText;
  } else if (t.payload.starts_with("image_")) {
    ITIF_TRY(parse_image(t.payload, o.payload_kind, o.image));
  } else {
    const wire::PayloadKind kinds[] = {wire::PayloadKind::kTokensU16, wire::PayloadKind::kTokensU32,
                                       wire::PayloadKind::kText};
    const auto found = std::ranges::find(kinds, t.payload, wire::payload_kind_name);
    if (found == std::end(kinds))
      return usage(
          fmt::format("--payload {}: choose tokens_u16, tokens_u32, text, image_u8:HxWxC "
                      "or image_f32:HxWxC",
                      t.payload));
    o.payload_kind = *found;
  }
  if ((o.payload_kind == wire::PayloadKind::kText) != !o.texts_file.empty())
    return usage("--payload text needs --texts FILE, and --texts needs --payload text or none");
  for (const wire::ResultKind kind : wire::kResultKinds) {
    o.result_kind = kind;
    if (t.result == wire::result_kind_name(kind)) return {};
  }
  return usage(fmt::format(
      "--result {}: choose default, hidden, pooled, embedding, logits, token_logits, classes, "
      "tokens or text",
      t.result));
}

Status set_server(Options& o, const std::string& text) {
  client::SocketOptions given;
  given.port = o.port;
  auto parsed = client::parse_server(text, given);
  if (!parsed) return usage("--server " + parsed.error().message);
  o.server = parsed->server;
  o.port = parsed->port;
  return {};
}

Status set_targets(Options& o, const Texts& t) {
  std::vector<std::string> files = t.tenant_files;
  for (const std::string& text : t.tenants) {
    if (text.ends_with(".json") || text.find('/') != std::string::npos) {
      files.push_back(text);
      continue;
    }
    ITIF_ASSIGN(Target target, parse_target(text));
    o.targets.push_back(std::move(target));
  }
  for (const std::string& path : files) {
    ITIF_ASSIGN(std::vector<Target> targets, read_targets(path));
    std::ranges::move(targets, std::back_inserter(o.targets));
  }
  if (o.targets.empty()) return usage("no tenant is given: give --tenant or --tenants");
  std::map<std::string, Target*> by_name;
  for (Target& target : o.targets) {
    if (!by_name.emplace(target.name, &target).second)
      return usage(
          fmt::format("two tenants are named '{}': give each a different name", target.name));
  }
  for (const std::string& text : t.weights) {
    const size_t at = text.rfind('=');
    const auto found = by_name.find(text.substr(0, at));
    if (at == std::string::npos || found == by_name.end())
      return usage(fmt::format("--weight {}: must be NAME=W with the name of a tenant", text));
    char* end = nullptr;
    const double weight = std::strtod(text.c_str() + at + 1, &end);
    if (end == text.c_str() + at + 1 || *end != '\0' || !(weight > 0) || weight > 1e9)
      return usage(fmt::format("--weight {}: the weight must be a number above 0", text));
    found->second->weight = weight;
  }
  return {};
}

Status read_texts(Options& o) {
  if (o.texts_file.empty()) return {};
  std::ifstream file(o.texts_file);
  if (!file)
    return fail(Code::kNotFound, fmt::format("--texts {}: the file cannot be read", o.texts_file));
  for (std::string line; std::getline(file, line);) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (line.size() > wire::kMaxTotalBytes)
      return usage(fmt::format("--texts {}: a line is longer than 16 MiB", o.texts_file));
    if (!line.empty()) o.texts.push_back(std::move(line));
  }
  if (o.texts.empty()) return usage(fmt::format("--texts {}: the file has no text", o.texts_file));
  return {};
}

// Searches and sweeps count what a single try achieves, because retries hide losses. A search sends
// at a constant rate, because the bursts of random arrivals would decide its trials.
Status set_trials(Options& o, const Texts& t) {
  if (t.ndr) o.goals.push_back({.name = "NDR", .loss_percent = 0});
  if (!t.pdr.empty()) {
    ITIF_ASSIGN(Goal goal, parse_pdr(t.pdr));
    o.goals.push_back(std::move(goal));
  }
  if (!t.sweep.empty()) {
    ITIF_ASSIGN(o.sweep, parse_sweep(t.sweep));
  }
  if (o.goals.empty() && t.search_given)
    return usage("--precision and --repeats need --ndr or --pdr");
  if (!o.goals.empty() && !t.arrivals_given && o.concurrency == 0) o.arrivals = Arrivals::kConstant;
  if ((!o.goals.empty() || o.sweep.steps > 0) && !t.tries_given) o.retry.max_tries = 1;
  return check_trials(o);
}

Status check(Options& o, const Texts& t) {
  ITIF_TRY(set_duration("--duration", t.duration, o.duration_ns));
  ITIF_TRY(set_duration("--warmup", t.warmup, o.warmup_ns));
  ITIF_TRY(set_duration("--drain", t.drain, o.drain_ns));
  ITIF_TRY(set_duration("--rto", t.rto, o.retry.initial_rto_ns));
  ITIF_TRY(set_duration("--timeout", t.timeout, o.retry.timeout_ns));
  if (!t.budget.empty()) {
    ITIF_ASSIGN(o.deadlines, parse_deadlines(t.budget));
  }
  if (o.concurrency > 0)
    o.arrivals = Arrivals::kClosed;
  else if (t.arrivals == "poisson")
    o.arrivals = Arrivals::kPoisson;
  else if (t.arrivals == "constant")
    o.arrivals = Arrivals::kConstant;
  else
    return usage(fmt::format("--arrivals {}: choose poisson or constant", t.arrivals));
  if (o.concurrency > 0 && o.rate_given)
    return usage("--rate is for open loop, --concurrency for closed loop: give only one of them");
  if (!(o.rate > 0) || o.rate > 1e9) return usage("--rate must be above 0");
  if (o.duration_ns == 0) return usage("--duration must be above 0");
  if (o.retry.max_tries == 0) return usage("--tries must be at least 1");
  if (o.retry.initial_rto_ns == 0 || o.retry.timeout_ns == 0)
    return usage("--rto and --timeout must be above 0");
  if (o.threads == 0 || o.threads > 256) return usage("--threads: must be from 1 to 256");
  if (o.flows == 0 || o.flows > 1024) return usage("--flows: must be from 1 to 1024");
  if (o.max_in_flight == 0 || o.max_in_flight > (1u << 22))
    return usage("--max-in-flight: must be from 1 to 4194304");
  if (o.concurrency > 0 && o.concurrency < o.threads)
    return usage("--concurrency must be at least --threads");
  if (o.concurrency > 0 && (o.concurrency + o.threads - 1) / o.threads > o.max_in_flight)
    return usage("--concurrency is more than --max-in-flight allows");
  if (!wire::fragment_size_valid(o.fragment_bytes))
    return usage(fmt::format("--fragment-bytes {}: must be a multiple of 4 from {} to {}",
                             o.fragment_bytes, wire::kMinFragmentBytes, wire::kMaxFragmentBytes));
  if (!(o.malform >= 0 && o.malform <= 1)) return usage("--malform: must be a share from 0 to 1");
  if (o.malform > 0 && !o.flood) return usage("--malform needs --flood");
  if (o.flood && o.concurrency > 0)
    return usage("--flood and --concurrency exclude each other: a flood has no closed loop");
  ITIF_TRY(set_trials(o, t));
  if (t.pcap_packets_given && o.pcap_file.empty()) return usage("--pcap-packets needs --pcap");
  if (o.pcap_packets == 0) return usage("--pcap-packets: must be at least 1");
  if (o.pcap_file == "-") return usage("--pcap -: must be a file, not standard output");
  if (!o.pcap_file.empty() && o.null_sink)
    return usage("--pcap and --null-sink exclude each other: no datagram has an address");
  if (t.eal_given && o.eal_args.find_first_not_of(' ') == std::string::npos)
    return usage("--eal needs EAL arguments that make a port: --eal \"--no-pci --vdev=…\"");
  if (!t.eal_given && (!o.eal_device.empty() || !o.server_mac.empty()))
    return usage("--eal-device and --server-mac need --eal: they are for sending through DPDK");
  if (!o.eal_args.empty() && o.null_sink) return usage("--eal and --null-sink exclude each other");
  if (!o.eal_args.empty() && o.local_address.empty())
    return usage("--eal needs --local-ip: the address to send from");
  if (!o.eal_args.empty() && o.threads > 1)
    return usage("--eal runs on one thread: drop --threads");
  o.flags = static_cast<uint16_t>((t.no_cache ? wire::kFlagNoCache : 0) |
                                  (t.truncate ? wire::kFlagTruncate : 0));
  ITIF_TRY(set_server(o, t.server));
  ITIF_TRY(set_kinds(o, t));
  if (o.vocab == 0 || (o.payload_kind == wire::PayloadKind::kTokensU16 && o.vocab > 65536))
    return usage("--vocab: must be from 1 to 65536, or more with --payload tokens_u32");
  ITIF_ASSIGN(o.lengths, parse_lengths(t.lengths));
  if (o.deadlines.kind == Deadlines::Kind::kByLength && !o.has_lengths())
    return usage("--budget length: needs token ids: texts and images have no known length");
  ITIF_TRY(set_targets(o, t));
  return read_texts(o);
}

}  // namespace

const char* arrivals_name(Arrivals arrivals) {
  switch (arrivals) {
    case Arrivals::kPoisson: return "poisson";
    case Arrivals::kConstant: return "constant";
    case Arrivals::kClosed: return "closed";
  }
  return "?";
}

Command parse_command(std::span<const std::string> arguments) {
  Command command;
  Texts texts;
  CLI::App app("Sends inference requests to an itif appliance and measures the answers.",
               "itif-loadgen");
  define(app, command.options, texts);
  std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());
  try {
    app.parse(reversed);
  } catch (const CLI::CallForHelp&) {
    command.text = app.help();
    return command;
  } catch (const CLI::CallForVersion&) {
    command.text = app.version() + "\n";
    return command;
  } catch (const CLI::ParseError& error) {
    command.exit_code = 2;
    command.text = fmt::format("itif-loadgen: {} (see --help)\n", error.what());
    return command;
  }
  command.options.rate_given = app.count("--rate") > 0;
  texts.eal_given = app.count("--eal") > 0;
  texts.arrivals_given = app.count("--arrivals") > 0;
  texts.tries_given = app.count("--tries") > 0;
  texts.pcap_packets_given = app.count("--pcap-packets") > 0;
  texts.search_given = app.count("--precision") + app.count("--repeats") > 0;
  if (Status checked = check(command.options, texts); !checked) {
    command.exit_code = 2;
    command.text = fmt::format("itif-loadgen: {}\n", checked.error().message);
    return command;
  }
  command.run = true;
  return command;
}

}  // namespace itif::loadgen
