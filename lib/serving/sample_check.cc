#include "serving/sample_check.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <optional>
#include <string_view>
#include <thread>

#include "wire/classes.h"
#include "wire/header.h"

namespace itif::serving {
namespace {

using Answer = pipeline::LocalRequests::Answer;
using wire::ResultKind;
using wire::StatusCode;

constexpr std::chrono::milliseconds kBusyPause{5};

std::unexpected<Error> differs(const model::Sample& sample, const std::string& how) {
  return fail(Code::kInvalidArgument, fmt::format("{}: {}", sample.origin, how));
}

template <class T>
std::vector<T> values_of(std::span<const std::byte> bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
  return values;
}

std::unexpected<Error> other_kind(const model::Sample& sample, const Answer& answer,
                                  const char* expected) {
  return differs(sample, fmt::format("the model answers {}, and 'expect' has {}",
                                     wire::result_kind_name(answer.result_kind), expected));
}

Status compare_values(const model::Sample& sample, const model::ExpectedValues& expected,
                      const Answer& answer) {
  switch (answer.result_kind) {
    case ResultKind::kClasses:
    case ResultKind::kTokens:
    case ResultKind::kText: return other_kind(sample, answer, "values: name a 'kind' with values");
    default: break;
  }
  const std::vector<float> got = values_of<float>(answer.result);
  if (got.size() != expected.values.size())
    return differs(sample,
                   fmt::format("the model gives {} values of {}, expected {}", got.size(),
                               wire::result_kind_name(answer.result_kind), expected.values.size()));
  size_t worst = 0;
  double most = -1;
  for (size_t i = 0; i < got.size(); ++i) {
    const double difference = std::abs(static_cast<double>(got[i]) - expected.values[i]);
    if (difference <= most) continue;  // false for NaN
    worst = i;
    most = std::isnan(difference) ? INFINITY : difference;
  }
  if (most <= expected.tolerance) return {};
  return differs(
      sample,
      fmt::format("value {} of {} is {}, expected {}: the difference of {:.4g} is the "
                  "largest, allowed are {:.4g}",
                  worst, got.size(), got[worst], expected.values[worst], most, expected.tolerance));
}

Status compare_label(const model::Sample& sample, const model::ExpectedLabel& expected,
                     const Answer& answer) {
  if (answer.result_kind != ResultKind::kClasses) return other_kind(sample, answer, "a label");
  wire::ClassReader reader(answer.result);
  wire::ClassEntry best;
  if (!reader.next(best)) return differs(sample, "the model gives no classes");
  if (best.name == expected.label) return {};
  return differs(sample, fmt::format("the best class is '{}' (probability {:.4f}), expected '{}'",
                                     best.name, best.probability, expected.label));
}

Status compare_tokens(const model::Sample& sample, const model::ExpectedTokens& expected,
                      const Answer& answer) {
  if (answer.result_kind != ResultKind::kTokens) return other_kind(sample, answer, "tokens");
  const std::vector<uint32_t> got = values_of<uint32_t>(answer.result);
  if (got == expected.ids) return {};
  const auto [at, other] = std::ranges::mismatch(got, expected.ids);
  return differs(sample,
                 fmt::format("the generated tokens differ from token {} on: {}, expected "
                             "{}",
                             at - got.begin(), fmt::join(got, " "), fmt::join(expected.ids, " ")));
}

Status compare_text(const model::Sample& sample, const model::ExpectedText& expected,
                    const Answer& answer) {
  if (answer.result_kind != ResultKind::kText) return other_kind(sample, answer, "a text");
  const std::string_view got(reinterpret_cast<const char*>(answer.result.data()),
                             answer.result.size());
  if (got == expected.text) return {};
  return differs(sample, fmt::format("the text is '{}', expected '{}'", got, expected.text));
}

Result<pipeline::LocalRequests::Question> question_of(const model::Sample& sample) {
  pipeline::LocalRequests::Question question;
  using wire::PayloadKind;
  for (const PayloadKind kind :
       {PayloadKind::kText, PayloadKind::kTokensU32, PayloadKind::kImageU8, PayloadKind::kImageF32})
    if (sample.payload_kind == wire::payload_kind_name(kind)) question.payload_kind = kind;
  std::optional<ResultKind> result;
  for (const ResultKind kind : wire::kResultKinds)
    if (sample.result_kind == wire::result_kind_name(kind)) result = kind;
  if (!result) return differs(sample, fmt::format("'kind' {} is unknown", sample.result_kind));
  question.result_kind = *result;
  question.flags = sample.truncate ? uint16_t{wire::kFlagTruncate} : uint16_t{0};
  question.payload = sample.payload;
  return question;
}

}  // namespace

Status compare(const model::Sample& sample, const Answer& answer) {
  return std::visit(
      [&](const auto& expected) -> Status {
        using Expected = std::remove_cvref_t<decltype(expected)>;
        if constexpr (std::is_same_v<Expected, model::ExpectedValues>)
          return compare_values(sample, expected, answer);
        else if constexpr (std::is_same_v<Expected, model::ExpectedLabel>)
          return compare_label(sample, expected, answer);
        else if constexpr (std::is_same_v<Expected, model::ExpectedTokens>)
          return compare_tokens(sample, expected, answer);
        else
          return compare_text(sample, expected, answer);
      },
      sample.expected);
}

Status check_samples(std::span<const model::Sample> samples, pipeline::LocalRequests& requests,
                     pipeline::GroupInbox& inbox, const tenant::ServedModel& model,
                     const std::function<bool()>& gives_up) {
  for (const model::Sample& sample : samples) {
    ITIF_ASSIGN(const auto question, question_of(sample));
    if ((model.payload_kinds >> static_cast<unsigned>(question.payload_kind) & 1) == 0)
      return differs(sample, fmt::format("the model does not take {}", sample.payload_kind));
    if (question.payload.size() > model.max_payload_bytes)
      return differs(sample, "the input is longer than the model takes");
    for (;;) {
      ITIF_ASSIGN(const Answer answer, requests.ask(inbox, model, question, gives_up));
      if (answer.status == StatusCode::kOverloaded) {
        if (gives_up()) return fail(Code::kUnavailable, "the group is too busy for the samples");
        std::this_thread::sleep_for(kBusyPause);
        continue;
      }
      if (answer.status == StatusCode::kDeviceFailed || answer.status == StatusCode::kInternal)
        return fail(Code::kUnavailable, fmt::format("{}: {}", sample.origin, answer.detail));
      if (answer.status != StatusCode::kOk)
        return differs(sample, fmt::format("the model refuses the input: {} ({})",
                                           wire::status_name(answer.status), answer.detail));
      ITIF_TRY(compare(sample, answer));
      break;
    }
  }
  return {};
}

}  // namespace itif::serving
