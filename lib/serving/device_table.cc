#include "serving/device_table.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace itif::serving {

DeviceTable::DeviceTable(std::unique_ptr<device::Device> first) : serving_(first.get()) {
  entries_.push_back({.device = std::move(first), .open = {}});
}

void DeviceTable::add_fallback(OpenDevice open) {
  entries_.push_back({.device = nullptr, .open = std::move(open)});
}

device::Device& DeviceTable::to_reset() const noexcept {
  const auto out = std::ranges::find_if(entries_, &Entry::is_out);
  return out == entries_.end() ? preferred() : *out->device;
}

DeviceTable::Entry& DeviceTable::entry_of(const device::Device& device) {
  const auto found =
      std::ranges::find(entries_, &device, [](const Entry& entry) { return entry.device.get(); });
  CHECK(found != entries_.end());
  return *found;
}

Result<device::Device*> DeviceTable::choose() {
  for (Entry& entry : entries_) {
    if (entry.is_out) continue;
    if (!entry.device) {
      ITIF_ASSIGN(entry.device, entry.open());
    }
    serving_.store(entry.device.get(), std::memory_order_release);
    return entry.device.get();
  }
  return fail(Code::kUnavailable, "there is no device to fall back on");
}

Result<device::Device*> DeviceTable::take_out(const device::Device& device) {
  Entry& entry = entry_of(device);
  const bool was_out = std::exchange(entry.is_out, true);
  auto chosen = choose();
  if (!chosen) entry.is_out = was_out;
  return chosen;
}

void DeviceTable::put_back(const device::Device& device) {
  entry_of(device).is_out = false;
  is_lost_.store(false, std::memory_order_relaxed);
  CHECK(choose());
}

}  // namespace itif::serving
