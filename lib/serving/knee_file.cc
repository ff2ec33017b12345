#include "serving/knee_file.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "control/file.h"
#include "json/json_file.h"
#include "plan/cost_file.h"

namespace itif::serving {
namespace {

using nlohmann::json;

constexpr uint32_t kVersion = 1;
constexpr size_t kMaxFileBytes = 1u << 20;
constexpr size_t kMaxCurves = 64;  // and points of each
constexpr uint32_t kMaxSize = 1u << 24;

// Returns a member's array. Errors: kCorrupt.
Result<const json*> array_of(const json& object, const char* key, const std::string& path) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  if (found == object.end() || !found->is_array() || found->empty() || found->size() > kMaxCurves)
    return fail(Code::kCorrupt,
                fmt::format("{}: {} is not an array of 1 to {} objects", path, key, kMaxCurves));
  return &*found;
}

Result<double> positive(const json& object, const char* key, double most, const std::string& path) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  if (found == object.end() || !found->is_number() || !(found->get<double>() > 0) ||
      found->get<double>() > most)
    return fail(Code::kCorrupt,
                fmt::format("{}: {} is not a number above 0, at most {:g}", path, key, most));
  return found->get<double>();
}

Result<slice::BatchCurve> read_curve(const json& object, const std::string& path) {
  slice::BatchCurve curve;
  ITIF_ASSIGN(const json* points, array_of(object, "points", path));
  for (auto [key, value] : {std::pair{"requests", &curve.requests}, {"tokens", &curve.tokens}}) {
    ITIF_ASSIGN(*value, json_file::get_uint(object, key, 1, kMaxSize, path));
  }
  for (const json& point : *points) {
    slice::SharePoint read;
    ITIF_ASSIGN(read.percent, positive(point, "percent", 100, path));
    ITIF_ASSIGN(read.throughput, positive(point, "requests_per_s", 1e12, path));
    if (!curve.points.empty() && read.percent <= curve.points.back().percent)
      return fail(Code::kCorrupt, fmt::format("{}: percents do not ascend", path));
    curve.points.push_back(read);
  }
  return curve;
}

}  // namespace

std::string knee_file_name(std::string_view device, std::string_view backbone) {
  return fmt::format("knee-{}.json", plan::profile_hash(device, backbone));
}

Result<slice::KneeProfile> read_knee_profile(const std::string& path) {
  ITIF_ASSIGN(const std::string text, control::read_file(path, kMaxFileBytes));
  ITIF_ASSIGN(const json object, json_file::parse_json_object(text, path));
  ITIF_ASSIGN(const uint32_t version, json_file::get_uint(object, "version", 0, UINT32_MAX, path));
  if (version != kVersion)
    return fail(Code::kUnsupported, fmt::format("{}: version {}, not {}", path, version, kVersion));
  slice::KneeProfile profile;
  ITIF_ASSIGN(profile.device, json_file::get_string_or(object, "device", "", path));
  ITIF_ASSIGN(profile.backbone, json_file::get_string_or(object, "backbone", "", path));
  ITIF_ASSIGN(const json* curves, array_of(object, "curves", path));
  for (const json& one : *curves) {
    ITIF_ASSIGN(slice::BatchCurve curve, read_curve(one, path));
    if (!profile.curves.empty() && curve.requests <= profile.curves.back().requests)
      return fail(Code::kCorrupt, fmt::format("{}: numbers of requests do not ascend", path));
    profile.curves.push_back(std::move(curve));
  }
  return profile;
}

Status write_knee_profile(const slice::KneeProfile& profile, const std::string& path) {
  json curves = json::array();
  for (const slice::BatchCurve& curve : profile.curves) {
    json points = json::array();
    for (const slice::SharePoint& point : curve.points)
      points.push_back({{"percent", point.percent}, {"requests_per_s", point.throughput}});
    curves.push_back(
        {{"requests", curve.requests}, {"tokens", curve.tokens}, {"points", std::move(points)}});
  }
  const json object = {{"version", kVersion},
                       {"device", profile.device},
                       {"backbone", profile.backbone},
                       {"curves", std::move(curves)}};
  return control::write_file(path, object.dump(1) + "\n", 0600);
}

}  // namespace itif::serving
