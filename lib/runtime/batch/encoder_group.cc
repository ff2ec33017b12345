#include "runtime/batch/encoder_group.h"

#include <fmt/format.h>

#include <algorithm>

#include "plan/make_planner.h"

namespace itif::runtime {

Status EncoderGroup::check_planner(std::string_view planner) const {
  if (!plan::shares_scores(planner) || can_share_scores()) return {};
  return fail(Code::kUnsupported,
              fmt::format("planner '{}' needs the fusion mode fused: the thesis's attention has no "
                          "mask between requests",
                          planner));
}

device::StreamLimits EncoderGroup::stream_limits() const noexcept {
  constexpr size_t kAlignment = 16;  // alignment of each piece
  const size_t tokens = options().max_tokens, requests = options().max_requests;
  device::StreamLimits limits = {.max_tokens = options().max_tokens,
                                 .max_segments = options().max_tokens};
  // Resized pictures, or the ids of texts.
  if (spec().takes_images())
    limits.unregistered_bytes =
        std::min(requests, tokens / spec().max_tokens()) * (spec().image.values() + kAlignment);
  else
    limits.unregistered_bytes = tokens * sizeof(int32_t) + (requests + 1) * kAlignment;
  // All hidden rows, and the ids. Hidden states are the largest result, unless a head has more
  // labels than the hidden size.
  limits.result_bytes =
      tokens * (spec().hidden + 1) * sizeof(float) + (2 * requests + 1) * kAlignment;
  return limits;
}

}  // namespace itif::runtime
