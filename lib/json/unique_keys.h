// Notices keys that a JSON object has twice. nlohmann::json would silently keep the last value, and
// another reader of the same text may keep the first.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace itif {

// Watches a parse: json::parse(text, std::ref(keys)). One per parse.
class UniqueKeys {
 public:
  bool operator()(int depth, nlohmann::json::parse_event_t event, nlohmann::json& value);

  // Returns the path of the first key that its object has twice, as in "args.name". Arrays add
  // nothing to a path.
  const std::optional<std::string>& duplicate() const { return duplicate_; }

 private:
  struct Object {
    std::set<std::string> keys;
    std::string last;  // key
  };
  std::vector<Object> objects_;  // that are open, the outermost first
  std::optional<std::string> duplicate_;
};

}  // namespace itif
