// The outbox: its descriptor, and the end that close() announces.
#include "control/outbox.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <thread>

namespace itif::control {
namespace {

bool is_readable(const Outbox& outbox) {
  pollfd descriptor{outbox.descriptor(), POLLIN, 0};
  return ::poll(&descriptor, 1, 0) == 1;
}

TEST(Outbox, IsReadableWhileMessagesWait) {
  const auto outbox = Outbox::make().value();
  EXPECT_FALSE(is_readable(*outbox));
  outbox->push(Event{"event", "one"});
  outbox->push(Event{"event", "two"});
  EXPECT_TRUE(is_readable(*outbox));
  const Outbox::Taken taken = outbox->take();
  EXPECT_EQ(taken.messages.size(), 2u);
  EXPECT_FALSE(taken.is_last);
  EXPECT_FALSE(is_readable(*outbox));
  EXPECT_TRUE(outbox->take().messages.empty());
}

// Regression: take() consumed the wake-up of close() and did not say so. The I/O thread blocked for
// ever, and itifd did not stop.
TEST(Outbox, TakeThatUsesUpTheWakeUpOfCloseSaysSo) {
  const auto outbox = Outbox::make().value();
  outbox->push(Event{"event", "last"});
  outbox->close();
  const Outbox::Taken taken = outbox->take();
  EXPECT_EQ(taken.messages.size(), 1u);
  EXPECT_TRUE(taken.is_last);
}

TEST(Outbox, EveryCloseIsNoticed) {
  for (int turn = 0; turn < 2000; ++turn) {
    const auto outbox = Outbox::make().value();
    std::thread closer([&] {
      outbox->push(Event{"event", "last"});
      outbox->close();
    });
    size_t num_messages = 0;
    for (bool is_last = false; !is_last;) {
      pollfd descriptor{outbox->descriptor(), POLLIN, 0};
      ASSERT_EQ(::poll(&descriptor, 1, 10'000), 1) << "the wake-up was lost";
      const Outbox::Taken taken = outbox->take();
      num_messages += taken.messages.size();
      is_last = taken.is_last;
    }
    closer.join();
    EXPECT_EQ(num_messages, 1u);
  }
}

}  // namespace
}  // namespace itif::control
