// Converts inputs to requests, and requests to outputs.
#include "runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <numeric>
#include <thread>

#include "backbone/open_model.h"
#include "base/clock.h"
#include "base/log.h"
#include "model/spec.h"
#include "plan/make_planner.h"
#include "runtime/batch/make_encoder_group.h"
#include "runtime/cost/pass_pricer.h"
#include "runtime/cost/profiler.h"
#include "runtime/generate/make_decoder_group.h"
#include "runtime/input_pool.h"
#include "runtime/plan_items.h"
#include "text/tokenizer.h"
#include "wire/payload.h"

namespace itif::run {
namespace {

BytePiece piece_of(std::span<const std::byte> bytes) {
  return {bytes.data(), static_cast<uint32_t>(bytes.size())};
}

}  // namespace

Result<std::unique_ptr<Runner>> Runner::open(const RunnerOptions& options) {
  std::unique_ptr<Runner> runner(new Runner);
  ITIF_ASSIGN(runner->device_, device::open_device(options.device));
  const auto files_of = [&](const std::string& directory) -> model::ModelFiles {
    return {directory, model::Adapter::is_in(directory) ? options.base : std::string()};
  };
  ITIF_ASSIGN(const model::BackboneSpec spec,
              backbone::read_backbone_spec(files_of(options.models.at(0))));
  ITIF_ASSIGN(const backbone::FusionMode fusion_mode,
              backbone::parse_fusion_mode(options.fusion_mode));
  const runtime::GroupOptions group_options{
      .max_tokens = std::max(options.max_tokens, spec.max_positions),
      .max_requests = 256,
      .max_tenants = static_cast<uint32_t>(options.models.size())};
  ITIF_ASSIGN(const backbone::Family* family, backbone::find_family(spec.family));
  if (family->make_decoder) {
    ITIF_ASSIGN(runner->group_, runtime::make_decoder_group(*runner->device_, spec, group_options));
  } else {
    ITIF_ASSIGN(auto encoder, runtime::make_encoder_group(*runner->device_, spec, group_options,
                                                          {.fusion_mode = fusion_mode}));
    runner->encoder_ = encoder.get();
    runner->group_ = std::move(encoder);
  }
  ITIF_ASSIGN(runner->stream_, runner->device_->make_stream(runner->group_->stream_limits()));
  runner->stream_->attach_thread();
  for (const std::string& directory : options.models) {
    ITIF_ASSIGN(const uint32_t slot,
                runner->group_->admit(files_of(directory), [](const std::string&, double) {}));
    runner->slots_.push_back(slot);
  }
  ITIF_TRY(runner->make_planner(options.planner));
  return runner;
}

Status Runner::make_planner(const std::string& name) {
  if (encoder_ == nullptr) {
    if (!plan::needs_cost_tables(name)) {
      source_planner_ = name;
      return {};
    }
    return fail(Code::kUnsupported,
                "the model generates, so its planners are packed, naive, concat and slotted");
  }
  ITIF_TRY(encoder_->check_planner(name));
  std::shared_ptr<const plan::CostTables> tables;
  if (plan::needs_cost_tables(name)) {
    const SystemClock clock;
    runtime::Profiler profiler(*device_, clock, group_->gemms(), model::signature(group_->spec()),
                               runtime::profile_options(*group_));
    while (profiler.step(*stream_)) {
    }
    ITIF_ASSIGN(plan::CostTables measured, profiler.finish());
    tables = std::make_shared<const plan::CostTables>(std::move(measured));
    group_->set_costs(tables);
  }
  const plan::PlanLimits limits = encoder_->pass_limits().added_to(
      {.max_requests = group_->options().max_requests, .max_rows = group_->options().max_tokens});
  ITIF_ASSIGN(planner_,
              runtime::make_group_planner(name, device_->info(), limits, tables,
                                          encoder_->pass_weights(), encoder_->graph_buckets()));
  return {};
}

void Runner::tokenize(const Input& input, Output& output) const {
  const model::TenantModel& model = this->model(input.model);
  if (!input.text) {
    output.ids = input.ids;
    output.token_types = input.token_types;
    return;
  }
  if (!model.tokenizer) {
    output.status = wire::StatusCode::kUnsupportedKind;
    output.detail = "this build does not support the model's tokenizer, or it has none";
    return;
  }
  std::vector<int32_t> ids;
  const text::EncodeOptions options{
      .max_tokens = model.max_text_tokens,
      .truncation = input.truncate ? text::Truncation::kLongestFirst : text::Truncation::kRefuse};
  switch (model.tokenizer->encode(*input.text, input.pair, options, ids, output.token_types)) {
    case text::EncodeStatus::kOk: break;
    case text::EncodeStatus::kMalformed:
      output.status = wire::StatusCode::kMalformed;
      output.detail = "the text is not UTF-8";
      return;
    case text::EncodeStatus::kTooLong:
      output.status = wire::StatusCode::kTooLong;
      output.detail = fmt::format("more than {} tokens", model.max_text_tokens);
      return;
  }
  output.ids.assign(ids.begin(), ids.end());
  if (model.spec.type_vocab >= 2) return;
  output.token_types.clear();
  if (!input.pair || model.spec.type_vocab == 0) return;
  output.status = wire::StatusCode::kUnsupportedKind;
  output.detail = "the model has one token type: give one text";
}

// Like GroupExecutor, whose error messages are more detailed.
void Runner::prepare_image(const Input& input, Output& output) const {
  const model::TenantModel& model = this->model(input.model);
  const model::ImageInput& size = model.spec.image;
  const bool is_f32 = input.image_kind == wire::PayloadKind::kImageF32;
  const auto refused = [&](wire::StatusCode status, const char* detail) {
    output.status = status;
    output.detail = detail;
  };
  wire::ImagePrefix picture;
  if (!wire::parse_image_prefix(input.image_kind, input.image,
                                static_cast<uint32_t>(input.image.size()), picture))
    return refused(wire::StatusCode::kMalformed, "the payload is not an image");
  if (!model.spec.takes_images() || picture.channels != size.channels || (!is_f32 && !model.images))
    return refused(wire::StatusCode::kUnsupportedKind, "the model does not accept such images");
  const auto pixels = std::span(input.image).subspan(sizeof picture);
  if (picture.height == size.height && picture.width == size.width) {
    output.pixels.assign(pixels.begin(), pixels.end());
    return;
  }
  if (is_f32 || !model.images->resize ||
      std::max(picture.height, picture.width) > model::kMaxPictureSide)
    return refused(wire::StatusCode::kUnsupportedKind,
                   "the image does not have the model's size and cannot be resized");
  output.pixels.resize(size.values());
  model::PictureResizer().resize(pixels, {picture.height, picture.width, picture.channels},
                                 *model.images->resize, {size.height, size.width, size.channels},
                                 output.pixels);
}

Result<std::vector<Output>> Runner::forward(const std::vector<Input>& inputs, uint32_t repeats,
                                            uint64_t interval_ns, std::vector<double>& us) {
  std::vector<Output> outputs(inputs.size());
  std::vector<size_t> order;  // indices of inputs that run
  size_t num_tokens = 0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].model >= slots_.size())
      return fail(Code::kInvalidArgument, fmt::format("input {} names model {}; there are {}", i,
                                                      inputs[i].model, slots_.size()));
    if (inputs[i].image.empty())
      tokenize(inputs[i], outputs[i]);
    else
      prepare_image(inputs[i], outputs[i]);
    if (outputs[i].status != wire::StatusCode::kOk) continue;
    num_tokens += inputs[i].image.empty() ? outputs[i].ids.size() : group_->spec().max_tokens();
    order.push_back(i);
  }
  const runtime::GroupOptions& limits = group_->options();
  if (order.size() > limits.max_requests || num_tokens > limits.max_tokens)
    return fail(
        Code::kInvalidArgument,
        fmt::format(
            "a batch of {} inputs and {} tokens is too large, at most {} and {}: lower --batch",
            order.size(), num_tokens, limits.max_requests, limits.max_tokens));
  if (encoder_ == nullptr) {
    for (uint32_t run = 0; run < repeats; ++run) ITIF_TRY(generate(inputs, order, outputs, us));
    return outputs;
  }

  std::vector<request::Request> requests(order.size());
  std::vector<runtime::PreparedInput> prepared(order.size());
  std::vector<BytePiece> pieces(order.size());
  std::vector<const runtime::PreparedInput*> given(order.size());  // null: as it arrived
  std::vector<plan::Item> items;
  for (size_t at = 0; at < order.size(); ++at) {
    const Input& input = inputs[order[at]];
    const Output& output = outputs[order[at]];
    request::Request& request = requests[at];
    request.slot = slots_[input.model];
    request.result_kind = input.kind;
    request.pieces = {&pieces[at], 1};
    if (!input.image.empty()) {
      request.payload_kind = input.image_kind;
      request.num_tokens = group_->spec().max_tokens();
      pieces[at] = piece_of(input.image);
      // u8 pixels are of the model's size here, as are all f32 pixels.
      if (input.image_kind == wire::PayloadKind::kImageU8) given[at] = &prepared[at];
      prepared[at].pixels_piece = piece_of(output.pixels);
    } else {
      request.payload_kind = wire::PayloadKind::kTokensU32;
      request.num_tokens = static_cast<uint32_t>(output.ids.size());
      pieces[at] = piece_of(std::as_bytes(std::span(output.ids)));
      prepared[at].token_types = output.token_types;
      given[at] = &prepared[at];
    }
    const model::TenantModel& model = *group_->model(request.slot);
    items.push_back({.slot = model.weight_slot,
                     .num_tokens = request.num_tokens,
                     .order = group_->weight_order(model.weight_slot),
                     .adapter = runtime::adapter_of(model, request.slot)});
  }
  plan::Plan plan;
  planner_->plan(items, plan);
  const auto num_adapted = std::ranges::count_if(plan.segments, [](const plan::Segment& segment) {
    return segment.adapter != plan::kNoAdapter;
  });
  log::info("{}: {} calls, {} passes, {} of {} rows are padding, {} requests of adapters",
            plan.offers.empty() ? planner_->name() : plan.offers[plan.chosen_offer].planner,
            plan.calls.size(), plan.passes.size(), plan.num_rows - plan.num_tokens, plan.num_rows,
            num_adapted);
  for (const plan::Offer& offer : plan.offers)
    log::info("  {}: {:.3f} ms expected", offer.planner, offer.price_ns * 1e-6);
  std::vector<runtime::BatchRequest> segments;
  runtime::for_each_segment(plan,
                            [&](const plan::Segment& segment, uint32_t mini_batch, uint32_t call) {
                              segments.push_back({.request = &requests[segment.item],
                                                  .prepared = given[segment.item],
                                                  .num_rows = segment.num_rows,
                                                  .mini_batch = mini_batch,
                                                  .call = call,
                                                  .score_matrix = segment.score_matrix});
                            });
  const SystemClock clock;
  uint64_t due_ns = clock.now_ns();
  for (uint32_t run = 0; run < repeats && !segments.empty(); ++run) {
    if (const uint64_t now_ns = clock.now_ns(); now_ns < due_ns)
      std::this_thread::sleep_for(std::chrono::nanoseconds(due_ns - now_ns));
    due_ns += interval_ns;
    const uint64_t start_ns = clock.now_ns();
    Status status;
    for (const plan::Pass& pass : plan.passes) {
      runtime::Batch batch{std::span(segments).subspan(pass.first_segment, pass.num_segments)};
      if (plan.has_fixed_calls) batch.calls = plan.calls;
      if (Status ran = encoder_->forward(*stream_, batch); !ran) status = std::move(ran);
    }
    us.push_back(static_cast<double>(clock.now_ns() - start_ns) / 1000);
    for (size_t at = 0; at < order.size(); ++at) {
      const request::Request& request = requests[at];
      Output& output = outputs[order[at]];
      output.status = request.status;
      output.detail = request.detail;
      output.kind = request.result_kind_out;
      output.rows = request.result_rows;
      output.result.assign(request.result.data, request.result.data + request.result.bytes);
      std::free(request.result.data);
    }
    ITIF_TRY(status);
  }
  return outputs;
}

}  // namespace itif::run
