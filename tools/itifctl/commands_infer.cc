// itifctl infer: sends one request over UDP, as a client does.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <iterator>
#include <memory>

#include "ask.h"
#include "base/units.h"
#include "client/client.h"
#include "commands.h"
#include "control/file.h"
#include "control/hex.h"
#include "key_store.h"
#include "picture.h"
#include "table.h"
#include "tenant/settings.h"
#include "wire/header.h"

namespace itif::ctl {
namespace {

using nlohmann::json;

constexpr uint64_t kInferTimeoutNs = 10'000'000'000;
constexpr size_t kShownValues = 8;

struct Options {
  std::string tenant;
  std::string text;
  std::string pair;
  std::vector<uint32_t> ids;
  std::string image;
  uint32_t channels = 3;  // of the image
  std::string result = "default";
  std::string deadline;
  std::string key;
  std::string key_file;
  uint32_t key_epoch = 0;
  std::string address;  // "HOST", "HOST:PORT" or "[V6]:PORT"; empty: the server is asked for it
};

struct Key {
  wire::Key bytes{};
  uint16_t epoch = 0;
};

Result<Key> parse_key(const std::string& hex, uint16_t epoch, const std::string& where) {
  Key key{.epoch = epoch};
  if (control::from_hex(hex, key.bytes)) return key;
  return fail(Code::kInvalidArgument,
              where + " is not a key: give the 32 hex digits that `itifctl tenant add` printed");
}

// Takes the key from --key, --key-file, ITIF_KEY or the key store, in this order.
Result<Key> find_key(const Context& context, const Options& options, const json& tenant) {
  const uint16_t current = tenant.value("key_epoch", uint16_t{0});
  const auto epoch = options.key_epoch != 0 ? static_cast<uint16_t>(options.key_epoch) : current;
  if (!options.key.empty()) return parse_key(options.key, epoch, "--key");
  if (!options.key_file.empty()) {
    ITIF_TRY(control::check_mode(options.key_file, 077));
    ITIF_ASSIGN(std::string text, control::read_file(options.key_file, 4096));
    text.erase(text.find_last_not_of(" \t\r\n") + 1);
    return parse_key(text, epoch, options.key_file);
  }
  if (const char* variable = std::getenv("ITIF_KEY"); variable != nullptr && variable[0] != '\0')
    return parse_key(variable, epoch, "ITIF_KEY");

  ITIF_ASSIGN(const KeyStore store, KeyStore::of_user());
  ITIF_ASSIGN(const auto stored, store.find(context.globals.endpoint, tenant.value("id", 0u)));
  const std::string name = tenant.value("name", "");
  const char* remedy = "pass --key, or make a new one with `itifctl tenant rotate-key`";
  if (!stored || stored->created_unix_ns != tenant.value("created_unix_ns", uint64_t{0}))
    return fail(Code::kNotFound,
                fmt::format("{} has no key for tenant {}: {}", store.path(), name, remedy));
  if (stored->epoch != current && stored->epoch != tenant.value("previous_key_epoch", uint16_t{0}))
    return fail(Code::kNotFound,
                fmt::format("the key of tenant {} in {} has epoch {}, but the server "
                            "accepts epoch {}: {}",
                            name, store.path(), stored->epoch, current, remedy));
  return parse_key(stored->key_hex, stored->epoch, store.path());
}

json decoded(const client::Answer& answer) {
  json out = {{"result_kind", wire::result_kind_name(answer.result_kind)},
              {"latency_ns", answer.latency_ns},
              {"server_ns", uint64_t{answer.server_us} * 1000},
              {"rows", answer.result_rows}};
  if (answer.model_version) out["model_version"] = *answer.model_version;
  return out;
}

// Adds the result's fields to `out`. Errors: kCorrupt.
Status decode(const client::Answer& answer, json& out) {
  if (answer.result_kind == wire::ResultKind::kClasses) {
    ITIF_ASSIGN(const auto classes, client::decode_classes(answer.result));
    out["classes"] = json::array();
    for (const client::ClassResult& c : classes)
      out["classes"].push_back(
          {{"index", c.index}, {"label", c.name}, {"probability", c.probability}});
    return {};
  }
  if (answer.result_kind == wire::ResultKind::kTokens) {
    ITIF_ASSIGN(out["tokens"], client::decode_tokens(answer.result));
    return {};
  }
  if (answer.result_kind == wire::ResultKind::kText) {
    ITIF_ASSIGN(out["text"], client::decode_text(answer.result));
    return {};
  }
  ITIF_ASSIGN(const auto values, client::decode_f32(answer.result));
  out["values"] = values;
  return {};
}

void print_values(const json& out, const json& labels) {
  const json& values = out["values"];
  const std::string kind = out.value("result_kind", "");
  const uint64_t rows = out.value("rows", uint64_t{0});
  if (kind == "logits" && labels.is_array() && labels.size() == values.size()) {
    Table table({{"LABEL"}, {"LOGIT", Table::Align::kRight}});
    for (size_t i = 0; i < values.size(); ++i)
      table.add({labels[i].is_string() ? labels[i].get<std::string>() : labels[i].dump(),
                 fmt::format("{:.4f}", values[i].get<double>())});
    fmt::print("{}", table.text());
    return;
  }
  double squares = 0;
  std::string first;
  for (size_t i = 0; i < values.size(); ++i) {
    const double value = values[i].is_number() ? values[i].get<double>() : NAN;
    squares += value * value;
    if (i < kShownValues) first += fmt::format("{}{:.4f}", i ? " " : "", value);
  }
  const std::string shape = rows > 1 && values.size() % rows == 0
                                ? fmt::format("{}x{}", rows, values.size() / rows)
                                : std::to_string(values.size());
  fmt::print("{} [{}]  {}{}  (norm {:.4f}; all with --json)\n", kind, shape, first,
             values.size() > kShownValues ? " …" : "", std::sqrt(squares));
}

void print_answer(const json& out, const json& labels) {
  if (out.contains("classes")) {
    Table table({{"LABEL"}, {"PROBABILITY", Table::Align::kRight}});
    for (const json& c : out["classes"]) {
      const std::string label = c.value("label", "");
      table.add({label.empty() ? fmt::format("class {}", c.value("index", 0u)) : label,
                 fmt::format("{:.4f}",
                             c["probability"].is_number() ? c["probability"].get<double>() : NAN)});
    }
    fmt::print("{}", table.text());
  } else if (out.contains("text")) {
    fmt::print("{}\n", out["text"].get<std::string>());
  } else if (out.contains("tokens")) {
    fmt::print("{}\n", fmt::join(out["tokens"].get<std::vector<uint32_t>>(), " "));
  } else {
    print_values(out, labels);
  }
  const std::string by =
      out.contains("model_version") ? " by version " + text_cell(out, "model_version") : "";
  fmt::print("answered{} in {} ({} in the appliance)\n", by, duration_cell(out, "latency_ns"),
             duration_cell(out, "server_ns"));
}

int infer(Context& context, const Options& options) {
  const auto shown = context.call("tenant.show", {{"tenant", tenant_ref(options.tenant)}});
  if (!shown) return shown.error();
  const json tenant = shown->value("tenant", json::object());

  client::Credential credential;
  credential.tenant_id = tenant.value("id", 0u);
  const std::string auth = tenant.value("auth", "full");
  const auto found = std::ranges::find(tenant::kAuthNames, auth);
  if (found == tenant::kAuthNames.end())
    return context.fail(
        kRefused, Error{Code::kUnsupported, fmt::format("unknown authentication '{}'", auth)});
  credential.auth = static_cast<wire::Auth>(found - tenant::kAuthNames.begin());
  if (credential.auth != wire::Auth::kNone) {
    const auto key = find_key(context, options, tenant);
    if (!key) return context.fail(kLocalFile, key.error());
    credential.key = key->bytes;
    credential.key_epoch = key->epoch;
  }

  client::SocketOptions socket;
  uint32_t fragment_bytes = wire::kDefaultFragmentBytes;
  if (options.address.empty()) {
    const auto address = context.call("data_address");
    if (!address) return address.error();
    socket.server = address->value("address", "");
    socket.port = address->value("port", wire::kDefaultPort);
    fragment_bytes = address->value("fragment_bytes", wire::kDefaultFragmentBytes);
  } else {
    const auto parsed = client::parse_server(options.address);
    if (!parsed) return context.fail(kUsage, parsed.error());
    socket = *parsed;
  }

  std::string text = options.text;
  if (text == "-") text.assign(std::istreambuf_iterator<char>(std::cin), {});
  if (!options.pair.empty()) text += std::string(1, '\0') + options.pair;
  client::Query query;
  query.payload = std::as_bytes(std::span(text));
  query.flags = wire::kFlagModelVersion;
  if (!options.ids.empty()) {
    query.payload_kind = wire::PayloadKind::kTokensU32;
    query.payload = std::as_bytes(std::span(options.ids));
  }
  std::vector<std::byte> picture;
  if (!options.image.empty()) {
    auto read = read_picture(options.image, options.channels);
    if (!read) return context.fail(kLocalFile, read.error());
    picture = std::move(*read);
    query.payload_kind = wire::PayloadKind::kImageU8;
    query.payload = picture;
  }
  for (const wire::ResultKind kind : wire::kResultKinds) {
    if (options.result == wire::result_kind_name(kind)) query.result_kind = kind;
  }
  if (!options.deadline.empty())
    query.budget_us = static_cast<uint32_t>(
        std::min<uint64_t>(parse_duration_ns(options.deadline).value_or(0) / 1000, UINT32_MAX));

  const auto answer = ask(context.clock(), socket, fragment_bytes, credential, query,
                          context.timeout_ns(kInferTimeoutNs));
  if (!answer) return context.fail(answer.error().exit_code, answer.error().error);
  if (answer->status != wire::StatusCode::kOk) {
    std::string message =
        fmt::format("the appliance refused the request: {}", wire::status_name(answer->status));
    if (!answer->detail.empty()) message += ": " + answer->detail;
    if (answer->retry_after_us != 0)
      message += fmt::format(": try again in {}",
                             format_duration_ns(uint64_t{answer->retry_after_us} * 1000));
    return context.fail(kRefused, {Code::kUnavailable, message});
  }
  json out = decoded(*answer);
  if (const Status good = decode(*answer, out); !good) return context.fail(kRefused, good.error());
  if (context.globals.json)
    context.print_json(out);
  else
    print_answer(out, tenant.value("labels", json::array()));
  return kDone;
}

}  // namespace

void add_infer_command(CommandLine& line) {
  auto options = std::make_shared<Options>();
  CLI::App* command =
      line.app.add_subcommand("infer", "Send one request over UDP and print its answer");
  add_tenant_argument(line, command, options->tenant);
  CLI::Option* text =
      command->add_option("TEXT", options->text, "input text; - reads standard input");
  command->add_option("--pair", options->pair, "second text, for models that take text pairs")
      ->type_name("TEXT")
      ->needs(text);
  CLI::Option* ids = command->add_option("--ids", options->ids, "token ids instead of a text")
                         ->type_name("ID,…")
                         ->delimiter(',')
                         ->check(whole_number(0, UINT32_MAX))
                         ->excludes(text);
  CLI::Option* image = command
                           ->add_option("--image", options->image,
                                        "PNG or JPEG file instead of a text, for image models")
                           ->type_name("FILE")
                           ->excludes(text)
                           ->excludes(ids);
  line.hints[image] = {ValueHint::Kind::kFile};
  command
      ->add_option("--channels", options->channels,
                   "channels of the image: 3 for RGB, 1 for grey [3]")
      ->type_name("N")
      ->check(whole_number(1, 3))
      ->check(CLI::IsMember({1, 3}))
      ->needs(image);
  std::vector<std::string> kinds;
  for (const wire::ResultKind kind : wire::kResultKinds)
    kinds.emplace_back(wire::result_kind_name(kind));
  line.hints[command
                 ->add_option("--result", options->result,
                              "kind of result [the default of the model's head]")
                 ->type_name("KIND")
                 ->check(CLI::IsMember(kinds))] = {ValueHint::Kind::kChoice, kinds};
  command
      ->add_option("--deadline", options->deadline,
                   "refuse the request if it cannot be answered within TIME [none]")
      ->type_name("TIME")
      ->check(duration_text());
  command
      ->add_option("--key", options->key,
                   "the tenant's key (visible to others in the process list)")
      ->type_name("HEX");
  line.hints[command->add_option("--key-file", options->key_file, "file with the key, mode 0600")
                 ->type_name("FILE")] = {ValueHint::Kind::kFile};
  command->add_option("--key-epoch", options->key_epoch, "epoch of the key [current]")
      ->type_name("N")
      ->check(whole_number(1, 65535));
  command->add_option("--address", options->address, "destination [the server's data address]")
      ->type_name("HOST[:PORT]");
  command->footer(
      "The key is taken from --key, --key-file, the variable ITIF_KEY, or from where `tenant add`\n"
      "or `tenant rotate-key` saved it. Examples:\n"
      "  itifctl infer sentiment \"a fine film\"\n"
      "  echo \"a fine film\" | itifctl infer sentiment - --deadline 25ms\n"
      "  itifctl infer animals --image heron.jpg\n"
      "  itifctl infer translate --ids 1042,77,0 --result tokens\n"
      "  itifctl --json infer search \"how to brew tea\" | jq '.values | length'");
  Context& context = line.context;
  command->callback([&context, options, text, ids, image] {
    if (text->count() + ids->count() + image->count() == 0)
      throw CLI::RequiredError("TEXT, --ids or --image");
    context.action = [&context, options] { return infer(context, *options); };
  });
}

}  // namespace itif::ctl
