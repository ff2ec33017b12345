// The tenant service's loads: brings models from their files into slots of groups, several at the
// same time.
//
// A load has two long steps on a loader thread: opening the model, then filling its slot. Between
// them, the job thread chooses the group, because it alone creates groups.
//
// If the digest of its contents is not known, another loader thread reads the files for it while
// the slot is filled. If it is known, but files have been replaced or touched, they are read
// before: the digest may decide that the load is refused.
//
// Loads that run together need more memory than one. If one of them finds too little memory, it
// runs again when the others have ended, alone. So a model is refused only if it would be refused
// on its own, too.
#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <optional>
#include <set>
#include <utility>

#include "backbone/open_model.h"
#include "serving/model_contents.h"
#include "serving/tenant_service.h"

namespace itif::serving {
namespace {

// Thrown by a progress callback to abort a load. Group::admit() converts it to an error.
struct Cancelled : std::exception {
  const char* what() const noexcept override { return "cancelled"; }
};

model::ModelFiles files_of(const tenant::Version& version) {
  return {version.model_dir, version.base_dir};
}

std::unexpected<Error> changed_while_loaded(const model::ModelFiles& files) {
  return fail(Code::kUnavailable,
              fmt::format("{}: a file changed while the model was loaded: repeat the request "
                          "when all files are complete",
                          directories_text(files)));
}

}  // namespace

// Owned by the job thread. A loader thread touches its load only between the post of a step and the
// step's end in ended_.
class TenantService::LoadRun {
 public:
  LoadRun(TenantService& service, std::vector<Load> loads, const control::Progress& progress,
          const OnLoaded& done)
      : service_(service), progress_(progress), done_(done), running_(loads.size()) {
    for (size_t i = 0; i < loads.size(); ++i) {
      in_order_ |= loads[i].in_order;
      running_[i].load = std::move(loads[i]);
      waiting_.push_back(i);
    }
  }

  void run() {
    size_t most = service_.loaders_.count();
    std::deque<size_t> alone;  // to run again, one by one
    for (;;) {
      for (; num_running_ < most && !waiting_.empty(); waiting_.pop_front()) open(waiting_.front());
      if (num_running_ == 0) {
        if (alone.empty()) return;
        most = 1;
        waiting_.push_back(alone.front());
        alone.pop_front();
        continue;
      }
      const size_t i = next_ended();
      Running& one = running_[i];
      if (--one.num_steps > 0) continue;
      if (in_order_ && i > next_) {
        held_.insert(i);
        continue;
      }
      const bool fills = one.opened && *one.opened && !one.slot && fill(i);
      if (i == next_) go_on_after(i);
      if (fills) continue;
      --num_running_;
      Result<Model> loaded = result_of(one);
      const bool lacks_memory =
          !loaded && loaded.error().code == Code::kResourceExhausted && !one.lacks_slot;
      if (lacks_memory && most > 1 && running_.size() > 1)
        alone.push_back(i);
      else if (lacks_memory && service_.free_previous(std::nullopt))
        waiting_.push_front(i);
      else
        done_(i, std::move(loaded));
    }
  }

 private:
  struct Running {
    Load load;
    std::optional<Result<backbone::OpenedModel>> opened;  // by the first step
    std::optional<uint16_t> group;                        // whose slot is counted
    std::optional<Result<uint32_t>> slot;                 // by the second step
    bool lacks_slot = false;  // no group, or no slot of the group, is free
    uint32_t num_steps = 0;   // that have not ended
    std::string stamp;        // of the files before the first step
    std::optional<Result<std::string>> digest;
    double fraction = 0;  // guarded by mutex_
  };

  // Runs a step on a loader thread.
  template <class Step>
  void post(size_t i, Step step) {
    ++running_[i].num_steps;
    service_.loaders_.post([this, i, step = std::move(step)] {
      step();
      const std::lock_guard lock(mutex_);
      ended_.push_back(i);
      changed_.notify_one();  // under the lock: the object may be gone after it
    });
  }

  size_t next_ended() {
    std::unique_lock lock(mutex_);
    while (
        !changed_.wait_for(lock, LoaderThreads::kPacePeriod, [this] { return !ended_.empty(); })) {
      lock.unlock();
      service_.loaders_.keep_pace();
      lock.lock();
    }
    const size_t i = ended_.front();
    ended_.pop_front();
    return i;
  }

  // Lets the load after this one choose its group.
  void go_on_after(size_t i) {
    next_ = i + 1;
    if (held_.erase(next_) == 0) return;
    ++running_[next_].num_steps;  // as if its step had ended now
    const std::lock_guard lock(mutex_);
    ended_.push_front(next_);
  }

  // Third-party code and containers may throw on a very large or malformed file.
  template <class Work>
  static auto guarded(const tenant::Version& version, const Work& work) -> decltype(work()) {
    try {
      return work();
    } catch (const std::bad_alloc&) {
      return fail(Code::kResourceExhausted,
                  fmt::format("{}: no memory to load it", version.model_dir));
    } catch (const std::exception& e) {
      return unexpected_failure(version.model_dir, e);
    }
  }

  void open(size_t i) {
    ++num_running_;
    Running& one = running_[i];
    one.opened.reset();
    one.slot.reset();
    one.group.reset();
    one.lacks_slot = false;
    one.digest.reset();
    post(i, [this, &one] {
      const tenant::Version& version = one.load.version;
      one.opened.emplace(guarded(version, [&]() -> Result<backbone::OpenedModel> {
        if (service_.cancelled_.load()) return stopping();
        report(one, "reading " + version.model_dir, 0);
        one.stamp = file_stamp(files_of(version));
        auto opened = service_.open_checked(files_of(version));
        if (opened) ITIF_TRY(compare_contents(one));
        return opened;
      }));
    });
  }

  // Sets the digest if the version has had one. Errors: kCorrupt: it is another now, and the load
  // refuses that.
  Status compare_contents(Running& one) const {
    const tenant::Version& version = one.load.version;
    if (version.contents.digest.empty()) return {};
    if (version.contents.stamp == one.stamp) {
      one.digest.emplace(version.contents.digest);
      return {};
    }
    ITIF_ASSIGN(std::string digest, digest_of(version));
    if (one.load.refuses_changes && digest != version.contents.digest)
      return changed_contents(one.load.record, version);
    one.digest.emplace(std::move(digest));
    return {};
  }

  Result<std::string> digest_of(const tenant::Version& version) const {
    auto digest = content_digest(files_of(version), [this] { return service_.cancelled_.load(); });
    if (!digest && service_.cancelled_.load()) return stopping();
    return digest;
  }

  // Chooses the group and begins to fill a slot of it. Returns false on an error.
  bool fill(size_t i) {
    Running& one = running_[i];
    auto group = guarded(one.load.version, [&]() -> Result<uint16_t> {
      if (service_.cancelled_.load()) return stopping();
      return one.load.choose_group(**one.opened);
    });
    if (!group) {
      one.lacks_slot = std::ranges::none_of(service_.stages_, [](const auto& s) { return !s; });
      one.slot.emplace(std::unexpected(std::move(group.error())));
      return false;
    }
    one.group = *group;
    one.lacks_slot = service_.is_full(*group);
    ++service_.num_slots_[*group];
    runtime::Group& target = service_.stages_[*group]->group();
    post(i, [this, &one, &target] {
      one.slot.emplace(target.admit_opened(std::move(**one.opened),
                                           [this, &one](const std::string& stage, double fraction) {
                                             if (service_.cancelled_.load()) throw Cancelled();
                                             report(one, stage, fraction);
                                           }));
    });
    if (one.digest) return true;
    post(i, [this, &one] {
      one.digest.emplace(guarded(one.load.version, [&] { return digest_of(one.load.version); }));
    });
    return true;
  }

  Result<Model> result_of(Running& one) {
    if (!*one.opened) return std::unexpected(std::move(one.opened->error()));
    if (*one.slot) {
      const Status unchanged = check_unchanged(one);
      if (unchanged)
        return service_.describe(*one.group, **one.slot, one.load.record, one.load.version,
                                 {**one.digest, one.stamp});
      service_.free_slot(*one.group, **one.slot);
      return std::unexpected(unchanged.error());
    }
    if (one.group) {
      --service_.num_slots_[*one.group];
      service_.drop_group_if_empty(*one.group);
    }
    if (service_.cancelled_.load()) return stopping();
    return std::unexpected(std::move(one.slot->error()));
  }

  // Returns an error if the files have no digest, or were changed while they were read.
  static Status check_unchanged(const Running& one) {
    const model::ModelFiles files = files_of(one.load.version);
    if (file_stamp(files) != one.stamp) return changed_while_loaded(files);
    return *one.digest ? Status() : std::unexpected(one.digest->error());
  }

  // Reports a load's own stages if it is the only one, else the progress of all.
  void report(Running& one, const std::string& stage, double fraction) {
    if (!progress_) return;
    const std::lock_guard lock(mutex_);
    if (running_.size() == 1) return progress_(stage, fraction);
    one.fraction = fraction;
    double sum = 0;
    for (const Running& each : running_) sum += each.fraction;
    progress_(fmt::format("loading {} models", running_.size()),
              sum / static_cast<double>(running_.size()));
  }

  TenantService& service_;
  const control::Progress& progress_;
  const OnLoaded& done_;
  std::vector<Running> running_;  // by load
  std::deque<size_t> waiting_;    // loads that have not begun
  size_t num_running_ = 0;
  bool in_order_ = false;  // loads choose their groups in order
  size_t next_ = 0;        // the load that chooses next; only with in_order_
  std::set<size_t> held_;  // opened loads that wait until then
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<size_t> ended_;  // loads whose step has ended; guarded by mutex_
};

void TenantService::load_all(std::vector<Load> loads, const control::Progress& progress,
                             const OnLoaded& done) {
  if (!loads.empty()) LoadRun(*this, std::move(loads), progress, done).run();
}

Result<backbone::OpenedModel> TenantService::open_checked(const model::ModelFiles& files) const {
  if (!check_model_) return backbone::open_model(files);
  const std::vector<std::string> before = file_states(files);
  const Status checked = check_model_(files, [this] { return cancelled_.load(); });
  if (cancelled_.load()) return stopping();
  if (!checked) return std::unexpected(checked.error());
  auto opened = backbone::open_model(files);
  // Files that differ from the checked ones must not be served.
  if (opened && file_states(files) != before) return changed_while_loaded(files);
  return opened;
}

std::unexpected<Error> TenantService::stopping() {
  return fail(Code::kUnavailable, "itifd is stopping: start it again and repeat the request");
}

std::unexpected<Error> TenantService::unexpected_failure(const std::string& model_dir,
                                                         const std::exception& e) {
  return fail(Code::kInternal, fmt::format("{}: unexpected failure: {}", model_dir, e.what()));
}

// Creating a group reserves memory for the architecture, so the model is opened first.
TenantService::Load TenantService::load_of(const tenant::Record& record,
                                           const tenant::Version& version,
                                           const control::Progress& progress) {
  return {.record = record,
          .version = version,
          .choose_group =
              [this, record, version, progress](const backbone::OpenedModel& opened) {
                return choose_group(record, version, opened.spec, progress);
              },
          .in_order = version.placement.group.empty()};
}

Result<TenantService::Model> TenantService::load(tenant::Record& record,
                                                 const tenant::Version& version, Origin origin,
                                                 const control::Progress& progress) {
  Load load = load_of(record, version, progress);
  load.refuses_changes = origin == Origin::kEarlier;
  Result<Model> loaded;
  load_all({std::move(load)}, progress,
           [&](size_t, Result<Model> result) { loaded = std::move(result); });
  if (!loaded) return loaded;
  if (origin == Origin::kKnown) return renumber(record, version, *std::move(loaded), progress);
  if (origin == Origin::kNew)
    ITIF_TRY(check(*loaded, version.model_dir, find(record.id)->info.index, progress));
  return loaded;
}

}  // namespace itif::serving
