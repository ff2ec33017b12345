// The tenant service's loads: brings models from their files into slots of groups, several at the
// same time.
//
// A load has two long steps on a loader thread: opening the model, then filling its slot. Between
// them, the job thread chooses the group, because it alone creates groups.
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
#include "runtime/result_bytes.h"
#include "serving/model_checker.h"
#include "serving/tenant_service.h"
#include "wire/payload.h"

namespace itif::serving {
namespace {

// Limits the text of one request. Not a limit on tokens: truncation makes long texts legal.
constexpr uint32_t kTextBytesPerToken = 32;

// Thrown by a progress callback to abort a load. Group::admit() converts it to an error.
struct Cancelled : std::exception {
  const char* what() const noexcept override { return "cancelled"; }
};

uint16_t kind_bit(wire::PayloadKind kind) {
  return static_cast<uint16_t>(1u << static_cast<unsigned>(kind));
}

// Sets the payload kinds that the model accepts, and the length above which a payload of any kind
// is too long.
void set_payloads(const model::TenantModel& model, uint16_t& kinds, uint32_t& max_bytes) {
  using wire::PayloadKind;
  if (model.spec.takes_images()) {
    kinds = kind_bit(PayloadKind::kImageF32);
    max_bytes = static_cast<uint32_t>(std::min<uint64_t>(
        sizeof(wire::ImagePrefix) + 4 * model.spec.image.values(), wire::kMaxTotalBytes));
    if (!model.images) return;
    kinds |= kind_bit(PayloadKind::kImageU8);
    if (model.images->resize) max_bytes = wire::kMaxTotalBytes;
    return;
  }
  kinds = kind_bit(PayloadKind::kTokensU16) | kind_bit(PayloadKind::kTokensU32);
  max_bytes = model.max_tokens * 4;
  if (!model.tokenizer) return;
  kinds |= kind_bit(PayloadKind::kText);
  max_bytes = model.max_tokens * kTextBytesPerToken;
}

}  // namespace

// Owned by the job thread. A loader thread touches its load only between the post of a step and the
// step's end in ended_.
class TenantService::Loads {
 public:
  Loads(TenantService& service, std::vector<Load> loads, const control::Progress& progress,
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
    double fraction = 0;      // guarded by mutex_
  };

  // Runs a step on a loader thread.
  template <class Step>
  void post(size_t i, Step step) {
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
    post(i, [this, &one] {
      const tenant::Version& version = one.load.version;
      one.opened.emplace(guarded(version, [&]() -> Result<backbone::OpenedModel> {
        if (service_.cancelled_.load()) return stopping();
        report(one, "reading " + version.model_dir, 0);
        return service_.open_checked({version.model_dir, version.base_dir});
      }));
    });
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
    return true;
  }

  Result<Model> result_of(Running& one) {
    if (!*one.opened) return std::unexpected(std::move(one.opened->error()));
    if (*one.slot)
      return service_.describe(*one.group, **one.slot, one.load.record, one.load.version);
    if (one.group) {
      --service_.num_slots_[*one.group];
      service_.drop_group_if_empty(*one.group);
    }
    if (service_.cancelled_.load()) return stopping();
    return std::unexpected(std::move(one.slot->error()));
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
  if (!loads.empty()) Loads(*this, std::move(loads), progress, done).run();
}

Result<backbone::OpenedModel> TenantService::open_checked(const model::ModelFiles& files) const {
  if (!check_model_) return backbone::open_model(files);
  const std::vector<std::string> before = file_states(files);
  const Status checked = check_model_(files, [this] { return cancelled_.load(); });
  if (cancelled_.load()) return stopping();
  if (!checked) return std::unexpected(checked.error());
  auto opened = backbone::open_model(files);
  // Files that differ from the checked ones must not be served.
  if (opened && file_states(files) != before)
    return fail(Code::kUnavailable,
                fmt::format("{}: a file changed while the model was loaded: repeat the request "
                            "when all files are complete",
                            files.directory));
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

Result<TenantService::Model> TenantService::load(const tenant::Record& record,
                                                 const tenant::Version& version, Origin origin,
                                                 const control::Progress& progress) {
  Result<Model> loaded;
  load_all({load_of(record, version, progress)}, progress,
           [&](size_t, Result<Model> result) { loaded = std::move(result); });
  if (loaded && origin == Origin::kNew)
    ITIF_TRY(check(*loaded, version.model_dir, find(record.id)->info.index, progress));
  return loaded;
}

Result<TenantService::Model> TenantService::describe(uint16_t number, uint32_t slot,
                                                     const tenant::Record& record,
                                                     const tenant::Version& version) {
  const runtime::Group& group = stages_[number]->group();
  const model::TenantModel& model = *group.model(slot);
  Model loaded;
  loaded.served.version = version.number;
  loaded.served.group = number;
  loaded.served.slot = slot;
  loaded.served.max_tokens = model.max_tokens;
  set_payloads(model, loaded.served.payload_kinds, loaded.served.max_payload_bytes);
  const size_t num_rows = pipeline_.workers().size() + 1;  // and that of the samples' requests
  loaded.served.lease = std::make_shared<tenant::Lease>(num_rows);
  loaded.served.lease->counts = counts_of(record.id, version.number);
  loaded.info = {
      .group = stages_[number]->name(),
      .backbone = model::describe(model.spec),
      .head = model::describe(model.head.spec, model.spec),
      .labels = std::make_shared<const std::vector<std::string>>(model.head.spec.labels),
      .result_kind = wire::result_kind_name(runtime::default_result_kind(model.head.spec)),
      .max_tokens = model.max_tokens,
      .weight_bytes = model.weight_bytes,
      .adapter_bytes = model.adapter_bytes,
      .shared_bytes = group.workspace_bytes()};
  return loaded;
}

void TenantService::unload(const Model& model) {
  const uint16_t group = model.served.group;
  loaders_.run([&] { stages_[group]->group().release(model.served.slot); });
  --num_slots_[group];
  drop_group_if_empty(group);
}

}  // namespace itif::serving
