// The host's part in the batches of a simulated device.
#pragma once

#include <cstdint>

namespace itif::device {

struct SimHost {
  // true: it collects a batch's inputs from their packets and copies them to the device. false: the
  // batch's gather reads the packets.
  bool collects_inputs = false;
  uint64_t batch_overhead_ns = 0;  // added to each batch
  uint64_t notice_ns = 0;          // from the end of a batch until its thread sees it
};

}  // namespace itif::device
