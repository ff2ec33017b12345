// The host's part in the batches of the simulated device: its inputs, and when it sees their end.
#include "device/sim/sim_host.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "device/sim/sim_device.h"

namespace itif::device {
namespace {

SimOptions gpu() {
  return simulated_machine(**find_machine("v100"), "f32").value();
}

// A batch of one request: its ids, then a GEMM.
Stream::Event launch_request(Stream& stream, std::span<const std::byte> payload) {
  const kernels::IdPiece piece = {.data = payload.data(),
                                  .num_ids = static_cast<uint32_t>(payload.size() / 2),
                                  .first_row = 0,
                                  .id_bytes = 2};
  stream.launch(kernels::GatherIds{.pieces = {&piece, 1}});
  stream.end_inputs();
  const kernels::RowRange range = {0, 8192, 0};
  stream.launch(
      kernels::GroupedGemm{.weights = {}, .bias = {}, .n = 4096, .k = 4096, .ranges = {&range, 1}});
  return stream.record();
}

// GSLICE, section 4.4: without zero copy an image reaches the device in 100 µs, before its batch.
TEST(SimHost, CollectsInputsBeforeTheBatchAndBesideAnotherOne) {
  const std::vector<std::byte> payload(588'000);
  constexpr uint64_t kCopyNs = 100'000 + 900, kNoticeNs = 50'000;
  VirtualClock clock(0);
  SimOptions options = gpu();
  options.host = {.collects_inputs = true, .notice_ns = kNoticeNs};
  SimDevice device(clock, std::move(options));
  const auto stream = device.make_stream({}, {}).value();
  const auto first = launch_request(*stream, payload), second = launch_request(*stream, payload);
  const uint64_t batch_ns = stream->wait(first).device_ns;
  ASSERT_GT(batch_ns, kCopyNs);
  EXPECT_EQ(clock.now_ns(), kCopyNs + batch_ns + kNoticeNs);
  EXPECT_TRUE(stream->inputs_read(second)) << "its copy ran beside the first batch";
  EXPECT_TRUE(stream->wait(second).status);
  EXPECT_EQ(clock.now_ns(), kCopyNs + 2 * batch_ns + kNoticeNs);
  EXPECT_EQ(device.busy_ns(), 2 * batch_ns);

  // Zero copy: the batch reads the packets over PCIe 3.0 x16.
  SimDevice gathering(clock, gpu());
  const auto other = gathering.make_stream({}, {}).value();
  const auto event = launch_request(*other, payload);
  const double read_ns = static_cast<double>(other->wait(event).device_ns - batch_ns);
  EXPECT_GE(read_ns, 588e3 / 15.75);  // ids are read as four bytes each
  EXPECT_LE(read_ns, 2 * 588e3 / 15.75 + 2);
  EXPECT_LT(read_ns, static_cast<double>(kCopyNs));
}

}  // namespace
}  // namespace itif::device
