#include "json/unique_keys.h"

#include <utility>

namespace itif {

bool UniqueKeys::operator()(int, nlohmann::json::parse_event_t event, nlohmann::json& value) {
  using Event = nlohmann::json::parse_event_t;
  if (event == Event::object_start) {
    objects_.emplace_back();
  } else if (event == Event::object_end) {
    objects_.pop_back();
  } else if (event == Event::key && !duplicate_) {
    Object& object = objects_.back();
    object.last = value.get<std::string>();
    if (object.keys.insert(object.last).second) return true;
    std::string path;
    for (const Object& outer : objects_) path += (path.empty() ? "" : ".") + outer.last;
    duplicate_ = std::move(path);
  }
  return true;
}

}  // namespace itif
