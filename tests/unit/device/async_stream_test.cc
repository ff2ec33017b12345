// Launches that run later on another thread: in order, with the arguments that the call copied.
#include "device/stream/async_stream.h"

#include <gtest/gtest.h>

#include <semaphore>
#include <span>
#include <type_traits>
#include <variant>
#include <vector>

#include "base/byte_piece.h"
#include "device/stream/metered_stream.h"
#include "kernels/spans.h"
#include "ticking_clock.h"

namespace itif::device {
namespace {

class AsyncStreamTest : public ::testing::Test {
 protected:
  std::unique_ptr<Stream> make_stream(std::function<void()> on_done = {}) {
    return device_
        ->make_stream({}, {.is_async = true, .clock = &clock_, .on_done = std::move(on_done)})
        .value();
  }
  // Launches x += bias for one row of one value.
  void add(Stream& stream, float& x, float& bias) {
    range_ = {0, 1, 0};
    stream.launch(kernels::BiasActivation{.x = &x,
                                          .bias = {reinterpret_cast<std::byte*>(&bias), 0},
                                          .width = 1,
                                          .ranges = {&range_, 1}});
    range_ = {};  // the call has copied it
  }

  kernels::RowRange range_;
  TickingClock clock_;
  std::unique_ptr<Device> device_ =
      open_device({.kind = "host", .dtype = "f32", .num_threads = 1}).value();
};

TEST_F(AsyncStreamTest, LaunchesWaitForRecordOrSynchronize) {
  const auto stream = make_stream();
  float x = 1, bias = 2, copied = 0;
  add(*stream, x, bias);
  add(*stream, x, bias);
  stream->copy_to_host(&x, sizeof x, &copied);
  EXPECT_EQ(x, 1);
  EXPECT_TRUE(stream->synchronize());
  EXPECT_EQ(copied, 5);
}

TEST_F(AsyncStreamTest, EventsCompleteInOrderWithTheirTimes) {
  std::binary_semaphore came{0}, go_on{0};
  const auto stream = make_stream([&] {
    came.release();
    go_on.acquire();
  });
  float x = 0, one = 1, ten = 10;
  add(*stream, x, one);
  const Stream::Event first = stream->record();
  add(*stream, x, ten);
  const Stream::Event second = stream->record();
  came.acquire();  // the stream's thread now blocks after the first event
  EXPECT_TRUE(stream->is_done(first));
  EXPECT_FALSE(stream->is_done(second));
  EXPECT_EQ(x, 1);
  const Stream::Completion done = stream->wait(first);
  EXPECT_TRUE(done.status);
  EXPECT_GT(done.device_ns, 0u);
  go_on.release();
  EXPECT_TRUE(stream->wait(second).status);
  EXPECT_EQ(x, 11);
  came.acquire();
  go_on.release();
}

// The inputs can be released after the gathers, while the rest runs.
TEST_F(AsyncStreamTest, InputsAreReadOnceTheGathersHaveRun) {
  std::binary_semaphore came{0}, go_on{0};
  const auto stream = make_stream([&] {
    came.release();
    go_on.acquire();
  });
  uint32_t ids[] = {3, 4};
  const kernels::IdPiece piece{reinterpret_cast<const std::byte*>(ids), 2, 0, 4};
  int32_t gathered[2] = {}, copied[2] = {};
  const auto launch = [&] {
    stream->launch(kernels::GatherIds{.pieces = {&piece, 1}, .ids = gathered, .vocab_size = 10});
    stream->end_inputs();
    stream->copy_to_host(gathered, sizeof gathered, copied);
    return stream->record();
  };
  const Stream::Event first = launch();
  const Stream::Event second = launch();
  came.acquire();  // the stream's thread now blocks after the first gather
  EXPECT_TRUE(stream->inputs_read(first));
  EXPECT_FALSE(stream->is_done(first));
  EXPECT_FALSE(stream->inputs_read(second));
  EXPECT_EQ(copied[0], 0);
  ids[0] = 7;
  go_on.release();
  came.acquire();
  EXPECT_TRUE(stream->is_done(first));
  EXPECT_EQ(copied[0], 3);
  EXPECT_FALSE(stream->inputs_read(second));
  go_on.release();
  came.acquire();
  EXPECT_TRUE(stream->inputs_read(second));
  EXPECT_TRUE(stream->wait(first).status);
  go_on.release();
  came.acquire();
  go_on.release();
  EXPECT_TRUE(stream->wait(second).status);
  EXPECT_EQ(copied[0], 7);
}

TEST_F(AsyncStreamTest, WithoutEndInputsTheyAreReadAtTheEvent) {
  std::binary_semaphore came{0};
  const auto stream = make_stream([&] { came.release(); });
  float x = 0, one = 1;
  add(*stream, x, one);
  EXPECT_FALSE(stream->inputs_read(0));
  const Stream::Event event = stream->record();
  came.acquire();
  EXPECT_TRUE(stream->inputs_read(event));
  EXPECT_TRUE(stream->is_done(event));
}

TEST_F(AsyncStreamTest, AFailureIsReportedOnlyWithItsEvent) {
  const auto stream = make_stream();
  std::vector<float> memory(64);
  const kernels::RowRange range{0, 1, 0};
  stream->launch(
      kernels::GroupedGemm{.a = memory.data(),
                           .weights = {reinterpret_cast<std::byte*>(memory.data() + 16), 0},
                           .bias = {},
                           .out = memory.data() + 32,
                           .n = 4,
                           .k = 4,
                           .ranges = {&range, 1},
                           .prepared = nullptr});
  const Stream::Event first = stream->record();
  const Stream::Event second = stream->record();
  const Status failed = stream->wait(first).status;
  ASSERT_FALSE(failed);
  EXPECT_NE(failed.error().message.find("not prepared"), std::string::npos);
  EXPECT_TRUE(stream->wait(second).status);
}

// A GEMM's mode shows in its number of launches.
TEST_F(AsyncStreamTest, CopiesGemmSchedules) {
  auto owned = std::make_unique<MeteredStream>(device_->make_stream().value(), clock_);
  const MeteredStream& metered = *owned;
  const auto stream =
      AsyncStream::make(std::move(owned), {.is_async = true, .clock = &clock_}).value();
  const GemmHandle prepared = device_->prepare({.n = 4, .k = 4, .has_bias = false}, 8).value();
  const auto buffer = device_->allocate(4096).value();
  std::vector<kernels::RowRange> ranges = {{0, 1, 0}, {1, 2, 0}};
  std::vector<kernels::ShapeMode> modes = {{4, 4, kernels::GemmMode::kConcurrent}};
  stream->launch(kernels::GroupedGemm{.a = buffer->data(),
                                      .weights = {buffer->data() + 1024, 0},
                                      .bias = {},
                                      .out = buffer->data() + 2048,
                                      .n = 4,
                                      .k = 4,
                                      .ranges = ranges,
                                      .schedule = {modes, kernels::GemmMode::kSequential},
                                      .prepared = prepared.get()});
  modes[0] = {};
  ASSERT_TRUE(stream->synchronize());
  EXPECT_EQ(metered.of("gemm").launches, 1u);
}

TEST_F(AsyncStreamTest, CopiesImagePieces) {
  const auto stream = make_stream();
  const std::byte pixels[] = {std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4}};
  std::vector<BytePiece> pieces = {{pixels, 1}, {pixels + 1, 3}};
  std::vector<kernels::ImagePixels> images(1);
  images[0].pieces = pieces;
  std::vector<float> out(4);
  stream->launch(kernels::GatherPatches{
      .images = images, .height = 2, .width = 2, .channels = 1, .patch = 2, .out = out.data()});
  pieces.assign(2, {});
  images.assign(1, {});
  ASSERT_TRUE(stream->synchronize());
  EXPECT_EQ(out, (std::vector<float>{1, 2, 3, 4}));
}

TEST_F(AsyncStreamTest, CopiesChosenRows) {
  const auto stream = make_stream();
  std::vector<float> logits = {1, 2, 3, 9, 7, 8};
  std::vector<uint32_t> chosen = {1};
  float log_probability = 0;
  int32_t token = -1;
  stream->launch(kernels::TopTokens{.logits = logits.data(),
                                    .rows = 1,
                                    .chosen = chosen,
                                    .vocab = 3,
                                    .count = 1,
                                    .log_probabilities = &log_probability,
                                    .tokens = &token});
  chosen.assign(1, 0);
  ASSERT_TRUE(stream->synchronize());
  EXPECT_EQ(token, 0);
}

// Records the spans of the operators that it is given.
class SpanRecorder final : public ImmediateStream {
 public:
  void attach_thread() override {}
  void dispatch(kernels::Operator op) override {
    std::visit(
        [this](const auto* args) {
          kernels::for_each_span(
              *args, [this](const auto& span) { spans.push_back(std::as_bytes(span)); });
        },
        op);
  }
  void copy_to_host(const void*, size_t, void*) override {}
  Status synchronize() override { return {}; }

  std::vector<std::span<const std::byte>> spans;
};

template <class Args>
void expect_copied(Stream& stream, const SpanRecorder& recorder) {
  alignas(16) static constexpr std::byte kHost[4096] = {};
  Args args{};
  std::vector<size_t> sizes;
  kernels::for_each_span(args, [&]<class T>(std::span<const T>& span) {
    span = {reinterpret_cast<const T*>(kHost), sizes.size() + 1};
    sizes.push_back(span.size_bytes());
  });
  const size_t before = recorder.spans.size();
  stream.launch(args);
  ASSERT_TRUE(stream.synchronize());
  ASSERT_EQ(recorder.spans.size(), before + sizes.size()) << Args::kName;
  for (size_t i = 0; i < sizes.size(); ++i) {
    EXPECT_EQ(recorder.spans[before + i].size(), sizes[i]) << Args::kName;
    EXPECT_NE(recorder.spans[before + i].data(), kHost) << Args::kName;
  }
}

template <class... Args>
void expect_all_copied(Stream& stream, const SpanRecorder& recorder,
                       std::type_identity<std::variant<const Args*...>>) {
  (expect_copied<Args>(stream, recorder), ...);
}

TEST_F(AsyncStreamTest, CopiesTheSpansOfEveryOperator) {
  auto owned = std::make_unique<SpanRecorder>();
  const SpanRecorder& recorder = *owned;
  const auto stream =
      AsyncStream::make(std::move(owned), {.is_async = true, .clock = &clock_}).value();
  expect_all_copied(*stream, recorder, std::type_identity<kernels::Operator>());
}

// Memory for the launches is allocated once. Launches beyond it use the heap, which is freed again.
TEST_F(AsyncStreamTest, AcceptsMoreLaunchesThanReserved) {
  const auto stream = make_stream();
  float x = 0, one = 1;
  for (int turn = 0; turn < 4; ++turn) {
    for (int i = 0; i < 20'000; ++i) add(*stream, x, one);
    ASSERT_TRUE(stream->synchronize());
  }
  EXPECT_EQ(x, 80'000);
}

TEST_F(AsyncStreamTest, DestructionRunsOnlyRecordedWork) {
  float x = 0, one = 1;
  {
    const auto stream = make_stream();
    add(*stream, x, one);
    stream->record();
    add(*stream, x, one);
  }
  EXPECT_EQ(x, 1);  // only the recorded launch ran
}

}  // namespace
}  // namespace itif::device
