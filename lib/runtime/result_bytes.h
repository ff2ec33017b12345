// The kinds of result that a head gives, their sizes, and the parts that the host computes.
#pragma once

#include <cstdint>
#include <span>

#include "model/head.h"
#include "request/request.h"
#include "wire/classes.h"
#include "wire/header.h"

namespace itif::runtime {

// Returns the kind that a model answers with when asked for ResultKind::kDefault.
wire::ResultKind default_result_kind(const model::HeadSpec& head) noexcept;
// Returns true if the model has a head for `kind`. Always true for kDefault.
bool supports(const model::HeadSpec& head, wire::ResultKind kind) noexcept;

// Returns the exact bytes of a result. REQUIRES: the head supports `kind`, and it is not kDefault.
uint64_t result_bytes(const model::HeadSpec& head, uint32_t hidden_size, wire::ResultKind kind,
                      uint32_t num_tokens) noexcept;

// Returns the first dimension of a result, as in the wire's `aux`.
uint32_t result_rows(const model::HeadSpec& head, wire::ResultKind kind,
                     uint32_t num_tokens) noexcept;

// Turns logits into probabilities in place: a sigmoid each if `problem` is kMultiLabel, else
// softmax. Logits that are not finite give probabilities of 0.
void to_probabilities(std::span<float> logits, model::Problem problem) noexcept;

// Writes `probabilities` [num labels] as the wire's kClasses, best first, ties by index. `entries`
// is scratch of as many. REQUIRES: out has result_bytes().
void write_classes(const model::HeadSpec& head, std::span<const float> probabilities,
                   std::span<wire::ClassEntry> entries, std::span<std::byte> out) noexcept;

// Returns a copy in its own memory; data is null if there is no memory.
request::ResultBuffer copy_of(std::span<const std::byte> result) noexcept;

// Scales to unit length; zeros stay zeros.
void normalize(std::span<float> vector) noexcept;

}  // namespace itif::runtime
