// The outcome of one check of `itifctl doctor`.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace itif::ctl::doctor {

enum class Verdict { kOk, kWarn, kFail, kNotApplicable };

constexpr std::string_view verdict_name(Verdict verdict) {
  switch (verdict) {
    case Verdict::kOk: return "ok";
    case Verdict::kWarn: return "warn";
    case Verdict::kFail: return "fail";
    case Verdict::kNotApplicable: return "not applicable";
  }
  return "?";
}

struct Check {
  std::string name;  // "hugepages"
  Verdict verdict = Verdict::kOk;
  std::string evidence;  // what the machine has, or why the check does not apply
  std::string remedy;    // of kWarn and kFail: a command, or the text to write and its file
};

using Checks = std::vector<Check>;

inline Check ok(std::string name, std::string evidence) {
  return {std::move(name), Verdict::kOk, std::move(evidence), {}};
}
inline Check warn(std::string name, std::string evidence, std::string remedy) {
  return {std::move(name), Verdict::kWarn, std::move(evidence), std::move(remedy)};
}
inline Check fail(std::string name, std::string evidence, std::string remedy) {
  return {std::move(name), Verdict::kFail, std::move(evidence), std::move(remedy)};
}
inline Check not_applicable(std::string name, std::string why) {
  return {std::move(name), Verdict::kNotApplicable, std::move(why), {}};
}

}  // namespace itif::ctl::doctor
