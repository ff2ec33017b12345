// Checks the options, and hands the calls to the state (engine_state.h).
#include "client/engine.h"

#include <fmt/format.h>
#include <sodium.h>

#include <utility>

#include "client/engine_state.h"

namespace itif::client {
namespace {

constexpr uint32_t kMaxInFlight = 1u << 22;

Status check(const EngineOptions& options, uint32_t num_flows) {
  if (options.max_in_flight == 0 || options.max_in_flight > kMaxInFlight)
    return fail(Code::kInvalidArgument, fmt::format("max_in_flight is {}: choose 1 to {}",
                                                    options.max_in_flight, kMaxInFlight));
  if (!wire::fragment_size_valid(options.fragment_bytes))
    return fail(
        Code::kInvalidArgument,
        fmt::format("fragment_bytes is {}: choose a multiple of 4 from {} to {}",
                    options.fragment_bytes, wire::kMinFragmentBytes, wire::kMaxFragmentBytes));
  if (options.burst_datagrams == 0)
    return fail(Code::kInvalidArgument, "burst_datagrams is 0: choose at least 1");
  if (options.retry.max_tries == 0 || options.retry.initial_rto_ns == 0 ||
      options.retry.timeout_ns == 0)
    return fail(Code::kInvalidArgument,
                "max_tries, initial_rto_ns and timeout_ns of the retry policy must be above 0");
  if (num_flows == 0) return fail(Code::kInvalidArgument, "the transport has no flow to send on");
  return {};
}

}  // namespace

Result<std::unique_ptr<ClientEngine>> ClientEngine::create(const Clock& clock, Transport& transport,
                                                           OutcomeSink& sink,
                                                           EngineOptions options) {
  ITIF_TRY(check(options, transport.num_flows()));
  if (!options.first_sequence) {
    if (sodium_init() < 0) return fail(Code::kInternal, "libsodium cannot be initialised");
    options.first_sequence.emplace();
    randombytes_buf(&*options.first_sequence, sizeof *options.first_sequence);
  }
  return std::unique_ptr<ClientEngine>(
      new ClientEngine(std::make_unique<EngineState>(clock, transport, sink, options)));
}

ClientEngine::ClientEngine(std::unique_ptr<EngineState> state) : state_(std::move(state)) {}
ClientEngine::~ClientEngine() = default;
Submit ClientEngine::submit(const RequestSpec& spec) noexcept {
  return state_->submit(spec);
}
size_t ClientEngine::poll() noexcept {
  return state_->poll();
}
size_t ClientEngine::flush() noexcept {
  return state_->flush();
}
void ClientEngine::cancel_all() noexcept {
  state_->cancel_all();
}
uint32_t ClientEngine::in_flight() const noexcept {
  return state_->in_flight();
}
bool ClientEngine::has_unsent() const noexcept {
  return state_->has_unsent();
}
uint64_t ClientEngine::next_timer_ns() const noexcept {
  return state_->next_timer_ns();
}
const EngineStats& ClientEngine::stats() const noexcept {
  return state_->stats();
}

}  // namespace itif::client
