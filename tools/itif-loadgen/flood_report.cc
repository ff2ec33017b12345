// Prints the results of a flood.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "flood.h"

namespace itif::loadgen {

std::string flood_table(const FloodResults& r) {
  const double seconds = static_cast<double>(r.elapsed_ns) / 1e9;
  const double rate = seconds > 0 ? static_cast<double>(r.datagrams_sent) / seconds : 0;
  const double gigabits = seconds > 0 ? static_cast<double>(r.bytes_sent) * 8e-9 / seconds : 0;
  std::string text = fmt::format(
      "sent: {} datagrams in {:.2f} s, {:.0f} datagrams/s, {:.2f} Gb/s of UDP payload; {} complete "
      "requests, {} damaged datagrams\n",
      r.datagrams_sent, seconds, rate, gigabits, r.requests, r.total_damaged());
  if (r.total_damaged() > 0) {
    text += "damaged:";
    for (size_t i = 0; i < kNumDamages; ++i)
      text += fmt::format(" {} {}", damage_name(static_cast<Damage>(i)), r.damaged[i]);
    text += '\n';
  }
  if (r.flows_with_token < r.num_flows)
    text += fmt::format(
        "tokens: the server answered the hello of {} of {} flows, and drops the requests of the "
        "others\n",
        r.flows_with_token, r.num_flows);
  text += "received:";
  bool any = false;
  for (size_t i = 0; i < r.received.size(); ++i) {
    if (r.received[i] == 0) continue;
    text += fmt::format(" {} {}", wire::type_name(static_cast<wire::Type>(i)), r.received[i]);
    any = true;
  }
  if (r.malformed_received > 0) {
    text += fmt::format(" malformed {}", r.malformed_received);
    any = true;
  }
  text += any ? "\n" : " nothing\n";
  if (r.received[static_cast<size_t>(wire::Type::kStatus)] > 0) {
    text += "statuses:";
    for (size_t i = 0; i < r.statuses.size(); ++i) {
      if (r.statuses[i] > 0)
        text += fmt::format(" {} {}", wire::status_name(static_cast<wire::StatusCode>(i)),
                            r.statuses[i]);
    }
    text += '\n';
  }
  return text;
}

nlohmann::ordered_json flood_json(const Options& options, const FloodResults& r) {
  nlohmann::ordered_json json;
  json["tool"] = "itif-loadgen";
  json["version"] = 1;
  json["mode"] = "flood";
  json["server"] = options.server;
  json["malform"] = options.malform;
  json["seed"] = options.seed;
  json["elapsed_s"] = static_cast<double>(r.elapsed_ns) / 1e9;
  json["requests_sent"] = r.requests;
  json["datagrams_sent"] = r.datagrams_sent;
  json["bytes_sent"] = r.bytes_sent;
  json["flows"] = r.num_flows;
  json["flows_with_token"] = r.flows_with_token;
  auto& damaged = json["damaged"] = nlohmann::ordered_json::object();
  for (size_t i = 0; i < kNumDamages; ++i)
    damaged[damage_name(static_cast<Damage>(i))] = r.damaged[i];
  auto& received = json["received"] = nlohmann::ordered_json::object();
  for (size_t i = 0; i < r.received.size(); ++i) {
    if (r.received[i] > 0) received[wire::type_name(static_cast<wire::Type>(i))] = r.received[i];
  }
  json["malformed_received"] = r.malformed_received;
  auto& statuses = json["statuses"] = nlohmann::ordered_json::object();
  for (size_t i = 0; i < r.statuses.size(); ++i) {
    if (r.statuses[i] > 0)
      statuses[wire::status_name(static_cast<wire::StatusCode>(i))] = r.statuses[i];
  }
  return json;
}

}  // namespace itif::loadgen
