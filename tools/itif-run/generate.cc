// Generates whole sequences.
#include <cstdlib>
#include <deque>

#include "base/clock.h"
#include "runner.h"

namespace itif::run {
namespace {

class Counter final : public runtime::CompletionSink {
 public:
  void complete(std::span<request::Request* const> requests) noexcept override {
    count += requests.size();
  }
  size_t count = 0;
};

}  // namespace

Status Runner::generate(const std::vector<Input>& inputs, const std::vector<size_t>& order,
                        std::vector<Output>& outputs, std::vector<double>& us) {
  const SystemClock clock;
  runtime::ExecutorOptions options;
  options.limits.max_tokens = group_->options().max_tokens;
  options.queue.max_slots = group_->options().max_tenants;
  ITIF_ASSIGN(const auto executor, group_->make_executor(*stream_, clock, options));
  ITIF_TRY(executor->set_planner(source_planner_, device_->info(), nullptr));
  std::deque<request::Request> requests;
  std::deque<request::Piece> pieces;
  const uint64_t start_ns = clock.now_ns();
  for (const size_t i : order) {
    const std::vector<uint32_t>& ids = outputs[i].ids;
    request::Request& request = requests.emplace_back();
    request.slot = slots_[inputs[i].model];
    request.payload_kind = wire::PayloadKind::kTokensU32;
    request.payload_bytes = static_cast<uint32_t>(ids.size() * sizeof(uint32_t));
    request.pieces = {&pieces.emplace_back(request::Piece{
                          reinterpret_cast<const std::byte*>(ids.data()), request.payload_bytes}),
                      1};
    // Like the appliance, answers a text with a text.
    request.result_kind = inputs[i].kind == wire::ResultKind::kDefault && inputs[i].text
                              ? wire::ResultKind::kText
                              : inputs[i].kind;
    executor->submit(&request);
  }
  Counter counter;
  bool failed = false;
  while (counter.count < requests.size()) {
    runtime::BatchFigures figures;
    executor->step(counter, figures);
    failed |= figures.device_failed;
  }
  us.push_back(static_cast<double>(clock.now_ns() - start_ns) / 1000);
  for (size_t at = 0; at < order.size(); ++at) {
    const request::Request& request = requests[at];
    Output& output = outputs[order[at]];
    output.status = request.status;
    output.detail = request.detail;
    output.kind = request.result_kind_out;
    output.result.assign(request.result.data, request.result.data + request.result.bytes);
    std::free(request.result.data);
  }
  if (failed) return fail(Code::kInternal, "the device failed");
  return {};
}

}  // namespace itif::run
