#include "benches/ingest_tags.h"

#include <fmt/format.h>

#include <functional>
#include <vector>

#include "base/random.h"
#include "wire/header.h"
#include "wire/siphash_many.h"

namespace itif::bench {
namespace {

constexpr size_t kTags = 64;       // a worker's burst
constexpr uint32_t kRepeats = 64;  // of a sample

}  // namespace

Status ingest_tags(const BenchOptions& options, Report& report) {
  using wire::SipHashKind;
  const std::pair<SipHashKind, const char*> kinds[] = {{SipHashKind::kOneByOne, "one by one"},
                                                       {SipHashKind::kAvx2, "AVX2"},
                                                       {SipHashKind::kAvx512, "AVX-512"}};
  Random random(1);
  std::array<std::byte, 16> key;
  for (std::byte& byte : key) byte = static_cast<std::byte>(random.next());
  for (const size_t payload_bytes : {size_t{0}, size_t{64}, size_t{1024}}) {
    const std::string name = fmt::format("tags of {} bytes", wire::kHeaderBytes + payload_bytes);
    if (!options.wants(name)) continue;
    std::vector<std::byte> bytes(kTags * (wire::kHeaderBytes + payload_bytes));
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.next());
    std::vector<wire::SipHashInput> inputs;
    for (size_t i = 0; i < kTags; ++i) {
      const auto datagram = std::span(bytes).subspan(i * (wire::kHeaderBytes + payload_bytes),
                                                     wire::kHeaderBytes + payload_bytes);
      inputs.push_back(
          {&key, datagram.first(wire::kHeaderBytes), datagram.subspan(wire::kHeaderBytes)});
    }
    std::vector<std::array<std::byte, 16>> expected(kTags);
    wire::siphash128_many(SipHashKind::kOneByOne, inputs, expected);
    std::vector<std::vector<std::array<std::byte, 16>>> outputs;
    std::vector<std::function<void()>> functions;
    std::vector<const char*> modes;
    outputs.reserve(std::size(kinds));
    for (const auto& [kind, mode] : kinds) {
      if (!wire::siphash_supported(kind)) {
        report.note(fmt::format("skipped {} {}: this CPU lacks it", name, mode));
        continue;
      }
      auto& out = outputs.emplace_back(kTags);
      wire::siphash128_many(kind, inputs, out);
      if (out != expected)
        return fail(Code::kInternal, fmt::format("{}, {}: other tags", name, mode));
      modes.push_back(mode);
      functions.push_back([&inputs, &out, kind] {
        for (uint32_t i = 0; i < kRepeats; ++i) wire::siphash128_many(kind, inputs, out);
      });
    }
    Effort effort = options.effort();
    effort.seconds = options.run_seconds() / 4;
    const std::vector<Samples> samples = measure(functions, effort);
    for (size_t i = 0; i < samples.size(); ++i)
      report.add({.name = name,
                  .mode = modes[i],
                  .value = samples[i].median() / (kTags * kRepeats),
                  .unit = "ns",
                  .spread = samples[i].spread()});
  }
  return {};
}

}  // namespace itif::bench
