#include "control/server.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <thread>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "base/wipe.h"
#include "control/dispatch.h"
#include "control/job_thread.h"
#include "control/message.h"
#include "control/operation.h"
#include "control/outbox.h"
#include "control/registry.h"
#include "control/sockets.h"

namespace itif::control {
namespace {

using nlohmann::json;

// Interval for reading the injected clock while stats have subscribers; its rate may differ from
// the system clock's.
constexpr int kStatsPollMs = 50;
constexpr double kProgressStep = 0.01;

Error stopping_error() {
  return {Code::kUnavailable, "the server is stopping: start it again and repeat the request"};
}

constexpr std::chrono::milliseconds kLastAnswerTime{300};

Error handover_error() {
  return {Code::kUnavailable,
          "a handover to another process runs: repeat the request when it has ended"};
}

}  // namespace

class Server::Impl {
 public:
  Impl(const ServerOptions& options, const Clock& clock, std::unique_ptr<Registry> registry,
       std::vector<tenant::Record> records, std::map<std::string, GroupSettings> groups,
       std::unique_ptr<Sockets> sockets, std::unique_ptr<Outbox> outbox)
      : options_(options),
        clock_(clock),
        registry_(std::move(registry)),
        records_(std::move(records)),
        groups_(std::move(groups)),
        sockets_(std::move(sockets)),
        outbox_(std::move(outbox)),
        jobs_(options.max_waiting, [this] { dispatcher_->look_after(); }) {}
  ~Impl() { stop(); }

  void attach(Appliance& appliance, const Documents& documents);
  void use_handover(Handover& handover) { dispatcher_->use_handover(handover); }
  void start();
  Status take_over();
  Status release();
  Status take_back();
  bool wait_restored(uint64_t timeout_ns);
  Result<uint64_t> drain(uint64_t timeout_ns);
  void leave_failed_device();
  std::optional<uint64_t> turns();
  void publish(const std::string& name, const json& fields);
  void stop();

 private:
  void serve();
  void on_request(const Peer& peer, std::string_view bytes);
  void enqueue(const Peer& peer, Request request, WorkerOperation operation);
  void publish_stats();
  void reply(const Peer& peer, std::string message) {
    outbox_->push(Reply{peer, std::move(message)});
  }

  const ServerOptions options_;
  const Clock& clock_;
  std::unique_ptr<Registry> registry_;
  std::vector<tenant::Record> records_;          // until attach()
  std::map<std::string, GroupSettings> groups_;  // keyed by name; until attach()
  std::unique_ptr<Sockets> sockets_;             // null: not bound yet
  std::unique_ptr<Outbox> outbox_;
  std::optional<Dispatcher> dispatcher_;
  JobThread jobs_;
  std::thread io_thread_;
  std::atomic<uint64_t> turns_{0};  // of serve()
  std::atomic<bool> stopping_{false};
  std::atomic<bool> handing_over_{false};
  uint64_t next_stats_ns_ = 0;  // I/O thread

  std::mutex restored_mutex_;
  std::condition_variable restored_changed_;
  bool restored_ = false;
};

void Server::Impl::attach(Appliance& appliance, const Documents& documents) {
  CHECK(!dispatcher_);
  dispatcher_.emplace(
      *registry_, appliance, documents, clock_,
      [this](const std::string& event, const json& fields) { publish(event, fields); },
      options_.events_endpoint);
  appliance.yield_when([this] { return jobs_.is_wanted(); });
  appliance.expect_groups(std::exchange(groups_, {}));
  appliance.expect(std::exchange(records_, {}), "");  // listed as loading
}

void Server::Impl::start() {
  CHECK(dispatcher_);
  const auto done = [this] {
    const std::lock_guard lock(restored_mutex_);
    restored_ = true;
    restored_changed_.notify_all();
  };
  jobs_.post({"restore", [this] { dispatcher_->restore(); }, done, done}, JobThread::Order::kNext);
  jobs_.start();
  if (sockets_) io_thread_ = std::thread([this] { serve(); });
}

Status Server::Impl::take_over() {
  CHECK(!sockets_);
  ITIF_TRY(registry_->acquire());
  jobs_.post({"restore", [this] { dispatcher_->save_notes(); }, [] {}}, JobThread::Order::kNext);
  ITIF_ASSIGN(sockets_, Sockets::bind_after(options_));
  io_thread_ = std::thread([this] { serve(); });
  return {};
}

Status Server::Impl::release() {
  ITIF_TRY(registry_->release());
  return sockets_->release_endpoints();
}

Status Server::Impl::take_back() {
  const Status endpoints = sockets_->take_back_endpoints();
  const Status acquired = registry_->acquire();
  return acquired ? endpoints : acquired;
}

bool Server::Impl::wait_restored(uint64_t timeout_ns) {
  std::unique_lock lock(restored_mutex_);
  return restored_changed_.wait_for(lock, std::chrono::nanoseconds(timeout_ns),
                                    [this] { return restored_; });
}

Result<uint64_t> Server::Impl::drain(uint64_t timeout_ns) {
  if (stopping_.load()) return std::unexpected(stopping_error());
  jobs_.close();
  dispatcher_->cancel();
  return dispatcher_->drain(timeout_ns);
}

void Server::Impl::leave_failed_device() {
  // Every affected group posts this job; repeating it is harmless.
  jobs_.post({"device.leave", [this] { dispatcher_->leave_failed_device(); }, [] {}},
             JobThread::Order::kNext);
}

std::optional<uint64_t> Server::Impl::turns() {
  if (!io_thread_.joinable()) return std::nullopt;
  outbox_->wake();
  return turns_.load(std::memory_order_relaxed);
}

void Server::Impl::publish(const std::string& name, const json& fields) {
  json message = fields.is_object() ? fields : json::object();
  message["v"] = kMessageVersion;
  message["event"] = name;
  message["unix_ns"] = clock_.unix_ns();
  outbox_->push(Event{"event", message.dump(-1, ' ', false, json::error_handler_t::replace)});
}

void Server::Impl::stop() {
  // Stop the job thread first, so that the I/O thread still sends its last answer.
  jobs_.stop();
  if (io_thread_.joinable()) {
    publish("server.stopping", json::object());
    stopping_.store(true);
    outbox_->close();
    io_thread_.join();
    // libzmq may drop an answer that reaches its client together with the end of the connection.
    if (handing_over_.load()) std::this_thread::sleep_for(kLastAnswerTime);
  }
  sockets_.reset();
}

void Server::Impl::serve() {
  while (true) {
    turns_.fetch_add(1, std::memory_order_relaxed);
    Outbox::Taken taken = outbox_->take();
    for (Outgoing& outgoing : taken.messages) {
      sockets_->send(outgoing);
      // It may have a tenant's key.
      if (auto* reply = std::get_if<Reply>(&outgoing))
        wipe(std::as_writable_bytes(std::span(reply->message)));
    }
    if (taken.is_last) return;
    const bool polls = sockets_->has_stats_subscribers() || sockets_->waits_for_tcp();
    sockets_->wait(outbox_->descriptor(), polls ? kStatsPollMs : -1);
    if (sockets_->waits_for_tcp()) sockets_->try_tcp();
    sockets_->receive([this](const Peer& peer, std::string_view bytes) { on_request(peer, bytes); },
                      [this](const Peer& peer, size_t num_frames) {
                        reply(peer,
                              error_message(nullptr, {Code::kInvalidArgument,
                                                      fmt::format("the request has {} frames: send "
                                                                  "one",
                                                                  num_frames)}));
                      });
    if (sockets_->has_stats_subscribers()) publish_stats();
  }
}

void Server::Impl::publish_stats() {
  const uint64_t now = clock_.now_ns();
  if (now < next_stats_ns_) return;
  next_stats_ns_ = now + options_.stats_period_ns;
  auto stats = dispatcher_->stats();
  if (!stats) return;
  const json message = {
      {"v", kMessageVersion}, {"unix_ns", clock_.unix_ns()}, {"stats", std::move(*stats)}};
  sockets_->send(Event{"stats", message.dump(-1, ' ', false, json::error_handler_t::replace)});
}

void Server::Impl::on_request(const Peer& peer, std::string_view bytes) {
  auto request = parse_request(bytes);
  if (!request) return reply(peer, error_message(request.error().id, request.error().error));
  auto operation = parse_operation(request->op, request->args);
  if (!operation) return reply(peer, error_message(request->id, operation.error()));
  if (auto* long_one = std::get_if<WorkerOperation>(&*operation))
    return enqueue(peer, std::move(*request), std::move(*long_one));
  auto result = dispatcher_->answer(std::get<QuickOperation>(*operation), jobs_.status());
  reply(peer, result ? ok_message(request->id, std::move(*result))
                     : error_message(request->id, result.error()));
}

void Server::Impl::enqueue(const Peer& peer, Request request, WorkerOperation operation) {
  const json id = request.id;
  // The new process has the tenants as they are now.
  const bool hands_over = std::holds_alternative<HandOver>(operation);
  if (handing_over_.load()) return reply(peer, error_message(id, handover_error()));
  if (hands_over) handing_over_.store(true);
  Job job;
  job.name = request.op;
  const auto result = std::make_shared<Result<json>>();
  job.run = [this, peer, id, result, operation = std::move(operation)] {
    std::string last_stage;
    double last_fraction = 0;
    const Progress progress = [&](const std::string& stage, double fraction) {
      // A loader may report every tensor; send at most about 100 messages per stage.
      const bool finished = fraction >= 1 && last_fraction < 1;
      if (stage == last_stage && fraction < last_fraction + kProgressStep && !finished) return;
      last_stage = stage;
      last_fraction = fraction;
      reply(peer, progress_message(id, stage, fraction));
    };
    *result = dispatcher_->run(operation, progress);
    if (std::holds_alternative<HandOver>(operation) && !*result) handing_over_.store(false);
  };
  job.answer = [this, peer, id, result] {
    reply(peer, *result ? ok_message(id, std::move(**result)) : error_message(id, result->error()));
  };
  job.refuse = [this, peer, id] { reply(peer, error_message(id, stopping_error())); };
  // Before the job can send progress of its own.
  if (const std::string running = jobs_.status().running; !running.empty())
    reply(peer, progress_message(id, "waiting for " + running, 0));
  if (jobs_.post(std::move(job), JobThread::Order::kLast)) return;
  if (hands_over) handing_over_.store(false);
  const JobThreadStatus status = jobs_.status();
  const Error busy{Code::kUnavailable,
                   fmt::format("{} operations wait for '{}' to finish: try again later",
                               status.waiting, status.running)};
  reply(peer, error_message(id, status.waiting > 0 ? busy : stopping_error()));
}

Result<std::unique_ptr<Server>> Server::open(const ServerOptions& options, const Clock& clock) {
  ITIF_ASSIGN(auto registry, Registry::open(options.state_dir));
  ITIF_ASSIGN(auto records, registry->load());
  ITIF_ASSIGN(auto groups, registry->load_groups());
  ITIF_ASSIGN(auto sockets, Sockets::bind(options));
  ITIF_ASSIGN(auto outbox, Outbox::make());
  return std::unique_ptr<Server>(
      new Server(std::make_unique<Impl>(options, clock, std::move(registry), std::move(records),
                                        std::move(groups), std::move(sockets), std::move(outbox))));
}

Result<std::unique_ptr<Server>> Server::open_beside(const ServerOptions& options,
                                                    const Clock& clock) {
  ITIF_ASSIGN(auto registry, Registry::open_copy(options.state_dir));
  ITIF_ASSIGN(auto records, registry->load());
  ITIF_ASSIGN(auto groups, registry->load_groups());
  ITIF_ASSIGN(auto outbox, Outbox::make());
  return std::unique_ptr<Server>(
      new Server(std::make_unique<Impl>(options, clock, std::move(registry), std::move(records),
                                        std::move(groups), nullptr, std::move(outbox))));
}

Server::Server(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Server::~Server() = default;
void Server::attach(Appliance& appliance, const Documents& documents) {
  impl_->attach(appliance, documents);
}
void Server::use_handover(Handover& handover) {
  impl_->use_handover(handover);
}
void Server::start() {
  impl_->start();
}
Status Server::take_over() {
  return impl_->take_over();
}
Status Server::release() {
  return impl_->release();
}
Status Server::take_back() {
  return impl_->take_back();
}
bool Server::wait_restored(uint64_t timeout_ns) {
  return impl_->wait_restored(timeout_ns);
}
Result<uint64_t> Server::drain(uint64_t timeout_ns) {
  return impl_->drain(timeout_ns);
}
void Server::leave_failed_device() {
  impl_->leave_failed_device();
}
std::optional<uint64_t> Server::turns() {
  return impl_->turns();
}

void Server::publish_event(const std::string& name, const json& fields) {
  impl_->publish(name, fields);
}
void Server::stop() {
  impl_->stop();
}

}  // namespace itif::control
