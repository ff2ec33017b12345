// A tenant as the admin knows it: its durable record, and the state of its model. The registry
// (lib/control) stores the record, the tenant service (lib/serving) owns the state, and the data
// plane reads a snapshot built from both (snapshot.h).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/wipe.h"
#include "tenant/settings.h"
#include "tenant/version.h"

namespace itif::tenant {

// Every copy is overwritten when it is freed.
struct Key {
  Key() = default;
  Key(const Key&) = default;
  Key& operator=(const Key&) = default;
  ~Key() { wipe(bytes); }

  uint16_t epoch = 0;
  std::array<std::byte, 16> bytes{};
};

// kNotLoaded: has no model, but its datagrams can be verified. Only in snapshots, never in records.
enum class State : uint8_t { kServing, kPaused, kNotLoaded };

// The part of a record that the data plane checks datagrams against.
struct Identity {
  uint32_t id = 0;  // on the wire; never reused
  std::string name;
  State state = State::kServing;
  Key key;           // current epoch
  Key previous_key;  // also accepted, after a rotation
  bool has_previous_key = false;
};

// A row of the registry.
struct Record : Identity, Settings {
  uint32_t version = 1;  // the active one's number
  std::string model_dir;
  std::string base_dir;  // of an adapter's base model; empty: model_dir holds a whole model
  uint64_t installed_unix_ns = 0;
  Placement placement;          // of the active version
  Contents contents;            // likewise
  std::vector<Version> others;  // versions that are not active, in order of their numbers
  uint32_t canary_percent = 0;  // requests that the canary among them answers; 0: there is none
  std::string group;            // a group's name; empty: chosen by the model's architecture
  uint64_t created_unix_ns = 0;
  uint64_t updated_unix_ns = 0;
};

// A tenant by id or by name.
using Ref = std::variant<uint32_t, std::string>;

// Figures of a version since it was loaded for the first time in this process.
struct VersionFigures {
  uint32_t number = 0;
  bool is_loaded = false;
  uint64_t answered = 0;
  uint64_t errors = 0;   // ended with a status, but not refused
  uint64_t refused = 0;  // for the load, a quota or a stop: a status that says nothing about it
  uint32_t in_flight = 0;
  uint64_t p50_ns = 0, p99_ns = 0;  // latency of the answered requests; 0: none
};

// How the last requests of a removed tenant ended.
struct Removal {
  uint64_t answered = 0;   // with a result, from the start of the removal on
  uint64_t refused = 0;    // with a status, from the start of the removal on
  uint64_t in_flight = 0;  // when the wait for them ended
  uint64_t waited_ns = 0;
};

// A model as loaded into a group.
struct LoadedModel {
  std::string group;
  std::string backbone;  // "bert 12x768, 12 heads"
  std::string head;      // "classification (3 labels)"
  std::shared_ptr<const std::vector<std::string>> labels;
  std::string result_kind;  // wire::result_kind_name of the default result
  uint32_t max_tokens = 0;
  uint64_t weight_bytes = 0;   // device memory of its weights, shared ones included
  uint64_t adapter_bytes = 0;  // of these, an adapter's own matrices
  uint64_t shared_bytes = 0;   // device memory that the tenants of its group share
};

enum class Condition : uint8_t { kLoading, kLoaded, kFailed };

struct Info {
  Record record;
  Condition condition = Condition::kLoading;
  std::string failure = {};         // kFailed: the reason
  std::string canary_failure = {};  // why the canary is not loaded; empty: it is, or there is none
  // kLoaded. Also kFailed, if the model could not leave a failed device: its group still holds it.
  std::optional<LoadedModel> model = {};
};

// The state as users see it, in every document.
inline const char* state_name(const Info& info) noexcept {
  switch (info.condition) {
    case Condition::kLoading: return "loading";
    case Condition::kFailed: return "failed";
    case Condition::kLoaded: break;
  }
  return info.record.state == State::kPaused ? "paused" : "serving";
}

}  // namespace itif::tenant
