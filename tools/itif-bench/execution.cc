#include "execution.h"

#include <fmt/format.h>

#include <algorithm>
#include <barrier>
#include <thread>

#include "execution_modes.h"

namespace itif::bench {
namespace {

constexpr uint32_t kVocab = 1024;
constexpr std::string_view kModes[] = {"seq", "multi-stream", "mps", "itif"};

Result<std::unique_ptr<device::Device>> open_host(const Workload& workload, uint32_t threads) {
  return device::open_device({.kind = "host", .dtype = workload.dtype, .num_threads = threads});
}

Result<std::vector<float>> last_row(Encoder& encoder, const Encoder::Batch& batch,
                                    uint32_t hidden) {
  ITIF_ASSIGN(const std::vector<float> states, encoder.hidden_states(batch));
  return std::vector<float>(states.end() - hidden, states.end());
}

class Itif final : public Execution {
 public:
  static Result<std::unique_ptr<Execution>> make(const Workload& workload) {
    auto itif = std::make_unique<Itif>();
    itif->hidden_ = workload.spec().hidden;
    itif->batch_ = workload.batch();
    ITIF_ASSIGN(itif->device_, open_host(workload, workload.threads));
    ITIF_ASSIGN(itif->encoder_,
                Encoder::make(*itif->device_, workload.spec(), workload.num_tenants(),
                              workload.requests.num_tokens()));
    return itif;
  }
  Status run() override { return encoder_->forward(batch_); }
  Result<std::vector<float>> last_states() override {
    ITIF_ASSIGN(const std::vector<float> states, encoder_->hidden_states(batch_));
    std::vector<float> last;
    for (const kernels::RowRange& range : batch_.ranges) {
      const auto end = states.begin() + ptrdiff_t{hidden_} * (range.first_row + range.num_rows);
      last.insert(last.end(), end - hidden_, end);
    }
    return last;
  }

 private:
  std::unique_ptr<device::Device> device_;
  std::unique_ptr<Encoder> encoder_;
  Encoder::Batch batch_;
  uint32_t hidden_ = 0;
};

class Seq final : public Execution {
 public:
  static Result<std::unique_ptr<Execution>> make(const Workload& workload) {
    auto seq = std::make_unique<Seq>();
    seq->hidden_ = workload.spec().hidden;
    seq->all_ = workload.batch();
    for (uint32_t tenant = 0; tenant < workload.num_tenants(); ++tenant)
      seq->batches_.push_back(Encoder::of_tenant(seq->all_, tenant, tenant));
    ITIF_ASSIGN(seq->device_, open_host(workload, workload.threads));
    ITIF_ASSIGN(seq->encoder_, Encoder::make(*seq->device_, workload.spec(), workload.num_tenants(),
                                             workload.requests.num_tokens()));
    return seq;
  }
  Status run() override {
    for (const Encoder::Batch& batch : batches_) ITIF_TRY(encoder_->forward(batch));
    return {};
  }
  Result<std::vector<float>> last_states() override {
    std::vector<float> last;
    for (const Encoder::Batch& batch : batches_) {
      ITIF_ASSIGN(const std::vector<float> row, last_row(*encoder_, batch, hidden_));
      last.insert(last.end(), row.begin(), row.end());
    }
    return last;
  }

 private:
  std::unique_ptr<device::Device> device_;
  std::unique_ptr<Encoder> encoder_;
  Encoder::Batch all_;  // the ids
  std::vector<Encoder::Batch> batches_;
  uint32_t hidden_ = 0;
};

class MultiStream final : public Execution {
 public:
  explicit MultiStream(const Workload& workload)
      : workload_(workload),
        all_(workload.batch()),
        lanes_(workload.num_tenants()),
        turn_(workload.num_tenants() + 1) {}

  static Result<std::unique_ptr<Execution>> make(const Workload& workload) {
    auto streams = std::make_unique<MultiStream>(workload);
    ITIF_ASSIGN(streams->device_, open_host(workload, threads_of_tenant(workload)));
    for (uint32_t tenant = 0; tenant < workload.num_tenants(); ++tenant)
      streams->lanes_[tenant].thread =
          std::thread([streams = streams.get(), tenant] { streams->serve(tenant); });
    ITIF_TRY(streams->do_all(Command::kMake));
    return streams;
  }
  ~MultiStream() override {
    if (!lanes_[0].thread.joinable()) return;
    (void)do_all(Command::kEnd);
    for (Lane& lane : lanes_) lane.thread.join();
  }
  Status run() override { return do_all(Command::kRun); }
  Result<std::vector<float>> last_states() override {
    ITIF_TRY(do_all(Command::kStates));
    std::vector<float> last;
    for (const Lane& lane : lanes_) last.insert(last.end(), lane.last.begin(), lane.last.end());
    return last;
  }

 private:
  enum class Command { kMake, kRun, kStates, kEnd };
  struct Lane {
    std::thread thread;
    std::unique_ptr<Encoder> encoder;
    Encoder::Batch batch;
    std::vector<float> last;
    Status status;
  };

  // Everything of a tenant belongs to its thread, which its device stream is bound to.
  void serve(uint32_t tenant) {
    Lane& lane = lanes_[tenant];
    for (;;) {
      turn_.arrive_and_wait();
      const Command command = command_;
      lane.status = obey(command, tenant, lane);
      if (command == Command::kEnd) lane.encoder.reset();
      turn_.arrive_and_wait();
      if (command == Command::kEnd) return;
    }
  }
  Status obey(Command command, uint32_t tenant, Lane& lane) {
    switch (command) {
      case Command::kMake: {
        lane.batch = Encoder::of_tenant(all_, tenant, 0);
        ITIF_ASSIGN(lane.encoder, Encoder::make(*device_, workload_.spec(), 1,
                                                lane.batch.offsets.back(), tenant));
        return {};
      }
      case Command::kRun: return lane.encoder->forward(lane.batch);
      case Command::kStates: {
        ITIF_ASSIGN(lane.last, last_row(*lane.encoder, lane.batch, workload_.spec().hidden));
        return {};
      }
      case Command::kEnd: return {};
    }
    return {};
  }
  Status do_all(Command command) {
    command_ = command;
    turn_.arrive_and_wait();
    turn_.arrive_and_wait();
    for (Lane& lane : lanes_)
      if (!lane.status) return std::unexpected(lane.status.error());
    return {};
  }

  const Workload workload_;
  const Encoder::Batch all_;
  std::unique_ptr<device::Device> device_;
  std::vector<Lane> lanes_;
  Command command_ = Command::kMake;
  std::barrier<> turn_;
};

}  // namespace

model::BackboneSpec Workload::spec() const {
  model::BackboneSpec spec = backbone::find_preset(preset).value()->spec;
  spec.vocab = std::min(spec.vocab, kVocab);
  if (layers != 0) spec.layers = layers;
  return spec;
}

uint32_t threads_of_tenant(const Workload& workload) {
  const uint32_t all =
      workload.threads != 0 ? workload.threads : std::thread::hardware_concurrency();
  return std::max(1u, all / workload.num_tenants());
}

std::span<const std::string_view> execution_modes() {
  return kModes;
}

Result<std::unique_ptr<Execution>> make_execution(std::string_view mode, const Workload& workload) {
  if (mode == "itif") return Itif::make(workload);
  if (mode == "seq") return Seq::make(workload);
  if (mode == "multi-stream") return MultiStream::make(workload);
  if (mode == "mps") return make_mps(workload);
  return fail(Code::kInvalidArgument, fmt::format("no execution mode '{}'", mode));
}

}  // namespace itif::bench
