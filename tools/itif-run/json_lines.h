// The JSON lines of itif-run.
//
//   in   {"ids": [101, …], "token_types": [0, …]}, {"text": "…", "pair": "…", "truncate": true},
//        {"image_u8": "FILE"} or {"image_f32": "FILE"}; FILE holds a payload as on the wire.
//        Optional in each: "model": 0, "kind": "embedding"
//   out  {"status": "ok", "ids": […], "token_types": […], "kind": "embedding", "shape": [384],
//        "values": […], "us": 1234.5}. Kind classes has "classes", tokens "tokens" and text "text"
//        in place of shape and values. Only ids and token_types if nothing was run.
//        {"status": "too_long", "detail": "…"} on an error
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"
#include "runner.h"

namespace itif::run {

// Parses "hidden", "pooled", …, the names of the wire format. Errors: kInvalidArgument.
Result<wire::ResultKind> parse_kind(std::string_view name);

// Errors: kInvalidArgument, kNotFound (an image's file); the message names the key.
Result<Input> parse_input(const std::string& line, wire::ResultKind default_kind);

// us: median time of the batch's runs.
std::string format_output(const Output& output, double us);

// Returns the input's line with its result as what the model must answer: a line of
// itif-samples.jsonl (model/samples.h). Errors: kInvalidArgument: the input was refused, has token
// types, or was not run.
Result<std::string> format_sample(const Input& input, const Output& output);

}  // namespace itif::run
