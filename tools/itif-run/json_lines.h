// The lines that itif-run reads and writes.
//
//   in   {"ids": [101, …], "token_types": [0, …]} or {"text": "…", "pair": "…", "truncate": true}, or
//        {"image_u8": "FILE"} or "image_f32", FILE holding a payload as on the wire;
//        either with "model": 0 and "kind": "embedding"
//   out  {"status": "ok", "ids": […], "token_types": […], "kind": "embedding", "shape": [384],
//        "values": […], "us": 1234.5}; "classes" instead of shape and values for kind classes; no
//        more than the tokens if nothing was run; {"status": "too_long", "detail": "…"}
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"
#include "runner.h"

namespace itif::run {

// "hidden", "pooled", …: the wire's names. Errors: kInvalidArgument.
Result<wire::ResultKind> parse_kind(std::string_view name);

// Errors: kInvalidArgument, by key.
Result<Input> parse_input(const std::string& line, wire::ResultKind default_kind);

// `us`: the median time of the batch's runs.
std::string format_output(const Output& output, double us);

}  // namespace itif::run
