// Traced requests in the Trace Event Format, which Perfetto and chrome://tracing load.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace itif::ctl {

// The name of the stage that ends at a point of trace.read: "queue" for "chosen". The point's own
// name if it ends none.
std::string stage_before(const std::string& point);

// Returns the events of `requests` (as trace.read has them): a row per request, with an event for
// the whole request and, inside it, one for each stage. Times are in µs since the first arrival.
nlohmann::json chrome_trace(const std::string& tenant, const nlohmann::json& requests);

}  // namespace itif::ctl
