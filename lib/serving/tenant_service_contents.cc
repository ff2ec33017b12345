// The tenant service's rule for versions whose files have changed: a number of a version always
// means the same contents.
//
// A version that serves is loaded again at a start, in the new process of a handover, when its
// group moves to another device, and when an admin resumes its tenant. If its files hold something
// else by then, this is a new version: it is checked with its samples and gets a new number. It is
// refused if its contents are those of the canary or of a version that was rolled back: all
// requests would get answers that the admin has not chosen for them. If an admin names an earlier
// version, by a rollback, changed files are refused.
#include <fmt/format.h>

#include "base/log.h"
#include "serving/model_contents.h"
#include "serving/tenant_service.h"
#include "tenant/version_changes.h"

namespace itif::serving {

// `old`: the tenant's record before the change that loads the version.
TenantService::Origin TenantService::origin_of(const tenant::Record& old,
                                               const tenant::Version& version) {
  const auto* canary = find_version(old, tenant::VersionState::kCanary);
  const bool is_known = version.state == tenant::VersionState::kActive
                            ? version.number == old.version
                            : canary != nullptr && version.number == canary->number;
  if (is_known) return Origin::kKnown;
  return version.contents.digest.empty() ? Origin::kNew : Origin::kEarlier;
}

std::unexpected<Error> TenantService::changed_contents(const tenant::Record& record,
                                                       const tenant::Version& version) {
  const std::string base = version.base_dir.empty() ? "" : " --base " + version.base_dir;
  return fail(Code::kCorrupt,
              fmt::format("{} has other contents than when version {} was installed, and that "
                          "version is no longer in memory: put its files back, or install what "
                          "the directory holds now: `itifctl tenant update {} --model {}{}`",
                          directories_text({version.model_dir, version.base_dir}), version.number,
                          record.name, version.model_dir, base));
}

// Returns an error if the new contents of a version's files must not serve. The newest version that
// had these contents decides: the canary and a version that was rolled back are not for all
// requests, and a canary with the active version's contents is none.
Status TenantService::check_not_withheld(const tenant::Record& record,
                                         const tenant::Version& version,
                                         const std::string& digest) {
  using enum tenant::VersionState;
  const std::vector<tenant::Version> all = all_versions(record);  // newest first
  const auto same = std::ranges::find_if(
      all, [&](const tenant::Version& other) { return other.contents.digest == digest; });
  if (same == all.end()) return {};
  const std::string& name = record.name;
  const auto refuse = [&](const char* what_it_is, const std::string& way_out) {
    return fail(Code::kCorrupt,
                fmt::format("{} has other contents than when version {} was installed, those of "
                            "version {}, which {}: put the files of version {} back, then `itifctl "
                            "tenant resume {}`; or {}",
                            directories_text({version.model_dir, version.base_dir}), version.number,
                            same->number, what_it_is, version.number, name, way_out));
  };
  if (version.state == kCanary && same->state == kActive)
    return refuse("is active",
                  fmt::format("take the canary back with `itifctl tenant rollback {}`", name));
  if (version.state == kActive && same->state == kCanary)
    return refuse(
        "is the canary",
        fmt::format("let the canary answer all requests with `itifctl tenant promote {}`", name));
  if (version.state == kActive && same->state == kRolledBack)
    return refuse(
        "was rolled back",
        fmt::format("install what it holds now with `itifctl tenant update {} --reload`", name));
  return {};
}

// If the files of a version have changed, checks the model with its samples and gives it a new
// number, also in `record`. On an error the model is unloaded, and `record` is as before.
Result<TenantService::Model> TenantService::renumber(tenant::Record& record,
                                                     const tenant::Version& version, Model model,
                                                     const control::Progress& progress) {
  const tenant::Contents& expected = version.contents;
  if (expected.digest.empty() || expected.digest == model.contents.digest) return model;
  const std::string directories = directories_text({version.model_dir, version.base_dir});
  if (auto chosen = check_not_withheld(record, version, model.contents.digest); !chosen) {
    leave({model}, find(record.id)->info.index, kNoTimeout);
    return std::unexpected(chosen.error());
  }
  tenant::Record next = record;
  const uint32_t number = renumber_version(next, version.number, model.contents, clock_.unix_ns());
  model.served.version = number;
  model.served.lease->counts = counts_of(record.id, number);
  const Status good = check(model, version.model_dir, find(record.id)->info.index, progress);
  if (!good)
    return fail(good.error().code,
                fmt::format("{} has other contents than when version {} was installed, and they "
                            "are refused as a new version: put the files back, then `itifctl "
                            "tenant resume {}`: {}",
                            directories, version.number, record.name, good.error().message));
  log::warning(
      "tenant '{}': {} has other contents than when version {} was installed: they serve "
      "as version {}",
      record.name, directories, version.number, number);
  record = std::move(next);
  return model;
}

}  // namespace itif::serving
