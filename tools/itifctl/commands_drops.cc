// itifctl drops: the fate of datagrams, with each reason in words. Repeats have sections of their
// own: they lost nothing.
#include <fmt/format.h>

#include "commands.h"
#include "net/drop_explanation.h"
#include "table.h"

namespace itif::ctl {
namespace {

using nlohmann::json;

constexpr const char* kRepeatsHeading = "Repeats: not lost";

// "bad_tag 3, over_quota 2"
std::string counts_text(const json& counts) {
  std::string text;
  for (const auto& [reason, count] : counts.items())
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", printable(reason),
                        count_cell(counts, reason.c_str()));
  return text;
}

void show_tenant_drops(const json& tenants) {
  using enum Table::Align;
  Table table({{"TENANT"},
               {"RECEIVED", kRight},
               {"FORWARDED", kRight},
               {"HELD", kRight},
               {"REPEATED", kRight},
               {"DROPPED", kRight},
               {"REASONS OF DROPS"}});
  for (const json& t : tenants) {
    const json dropped = t.value("dropped", json::object());
    table.add({text_cell(t, "name"), count_cell(t, "received"), count_cell(t, "forwarded"),
               count_cell(t, "held"), with_thousands(sum_of(t.value("repeated", json::object()))),
               with_thousands(sum_of(dropped)), counts_text(dropped)});
  }
  if (!tenants.empty()) fmt::print("\n{}", table.text());
}

std::string explanation_of(net::DropReason reason) {
  const net::DropExplanation& words = net::explain_drop(reason);
  return fmt::format("{} {}", words.means, words.remedy);
}

// All reasons, without a server.
int list_reasons(const Context& context) {
  json reasons = json::array();
  for (const net::DropClass wanted : {net::DropClass::kDropped, net::DropClass::kRepeated}) {
    if (!context.globals.json && wanted == net::DropClass::kRepeated)
      fmt::print("\n{}\n", kRepeatsHeading);
    for (size_t i = 1; i < net::kNumDropReasons; ++i) {
      const auto reason = static_cast<net::DropReason>(i);
      if (net::drop_class(reason) != wanted) continue;
      const net::DropExplanation& words = net::explain_drop(reason);
      reasons.push_back({{"reason", net::drop_reason_name(reason)},
                         {"class", net::drop_class_name(wanted)},
                         {"means", words.means},
                         {"remedy", words.remedy}});
      if (!context.globals.json)
        fmt::print("{}: {}\n", net::drop_reason_name(reason), explanation_of(reason));
    }
  }
  if (context.globals.json) context.print_json({{"reasons", std::move(reasons)}});
  return kDone;
}

// Prints each reason that occurred, with its count and in words. Prints nothing if none did.
void show_reasons(const char* heading, const json& counts) {
  using enum Table::Align;
  if (sum_of(counts) == 0) return;
  Table reasons({{"REASON"}, {"DATAGRAMS", kRight}});
  for (const auto& [reason, count] : counts.items())
    if (count != 0) reasons.add({reason, count_cell(counts, reason.c_str())});
  fmt::print("\n{}\n{}\n", heading, reasons.text());
  for (const auto& [name, count] : counts.items()) {
    // A newer server may have reasons that this program does not know.
    const auto reason = net::find_drop_reason(name);
    if (count != 0 && reason) fmt::print("{}: {}\n", name, explanation_of(*reason));
  }
}

void show_drops(const json& document) {
  using enum Table::Align;
  Table workers({{"WORKER"},
                 {"PORT"},
                 {"QUEUE", kRight},
                 {"RECEIVED", kRight},
                 {"FORWARDED", kRight},
                 {"HELD", kRight},
                 {"REPEATED", kRight},
                 {"DROPPED", kRight}});
  const auto add = [&](const std::string& name, const json& w) {
    const bool is_worker = w.contains("queue");
    workers.add({name, is_worker ? text_cell(w, "port") : "",
                 w.contains("fed_by") ? "by worker " + text_cell(w, "fed_by")
                 : is_worker          ? text_cell(w, "queue")
                                      : "",
                 count_cell(w, "received"), count_cell(w, "forwarded"), count_cell(w, "held"),
                 with_thousands(sum_of(w.value("repeated", json::object()))),
                 with_thousands(sum_of(w.value("dropped", json::object())))});
  };
  for (const json& w : document.value("workers", json::array())) add(text_cell(w, "worker"), w);
  const json total = document.value("total", json::object());
  add("total", total);
  fmt::print("{}lost before a worker saw them: {}\n", workers.text(),
             count_cell(total, "nic_missed"));
  if (total.value("nic_missed", uint64_t{0}) > 0)
    fmt::print(
        "Packets arrive faster than the workers take them: use more queues, busy polling or more "
        "rx_descriptors.\n");
  show_tenant_drops(document.value("tenants", json::array()));
  show_reasons("Dropped", total.value("dropped", json::object()));
  show_reasons(kRepeatsHeading, total.value("repeated", json::object()));
}

}  // namespace

void add_drops(CommandLine& line) {
  CLI::App* drops = line.app.add_subcommand(
      "drops", "Received, forwarded, repeated and dropped datagrams, with each reason in words");
  drops->footer("Examples:\n  itifctl drops\n  itifctl drops reasons | grep full");
  Context& context = line.context;
  drops->callback([&context, drops] {
    if (!drops->get_subcommands().empty()) return;
    context.action = [&context] {
      const auto answer = context.call("drops");
      if (!answer) return answer.error();
      if (context.globals.json)
        context.print_json(*answer);
      else
        show_drops(*answer);
      return static_cast<int>(kDone);
    };
  });
  CLI::App* reasons =
      drops->add_subcommand("reasons", "Each reason in words, with its remedy; needs no server");
  reasons->footer("Example:\n  itifctl drops reasons");
  reasons->callback([&context] { context.action = [&context] { return list_reasons(context); }; });
}

}  // namespace itif::ctl
