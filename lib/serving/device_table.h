// The devices that groups run on, in order of preference. New groups start on the first one that
// works; if it fails, its groups move to the next. A device is opened when it is first needed.
//
// One thread at a time makes changes (control's job thread). serving(), uses_fallback() and
// is_lost(): any thread.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "device/device.h"

namespace itif::serving {

using OpenDevice = std::function<Result<std::unique_ptr<device::Device>>()>;

class DeviceTable {
 public:
  // `first` is the most preferred device.
  explicit DeviceTable(std::unique_ptr<device::Device> first);
  // Appends a device that is opened if all before it fail. `open` also registers packet memory
  // with it, if it reads packets. REQUIRES: called before the table is used.
  void add_fallback(OpenDevice open);

  // The first device, which is used while it works.
  device::Device& preferred() const noexcept { return *entries_.front().device; }
  // The first device that has not failed, or the last opened one if all have.
  device::Device& serving() const noexcept { return *serving_.load(std::memory_order_acquire); }
  // Returns true while serving() is not preferred().
  bool uses_fallback() const noexcept { return &serving() != &preferred(); }
  bool has_fallback() const noexcept { return entries_.size() > 1; }
  // The device that a reset is for: the first one that is out of use, else the preferred one.
  device::Device& to_reset() const noexcept;

  // Takes a device out of use and returns the one that serves from now on. If the table has no
  // other working device, nothing has changed. Errors: kUnavailable, those of opening.
  Result<device::Device*> take_out(const device::Device& device);
  // Puts a device back into use, after its reset.
  void put_back(const device::Device& device);
  // Notes that a device did not work after its reset. Not for a reset that was refused.
  void note_failed_reset() noexcept { is_lost_.store(true, std::memory_order_relaxed); }
  // Returns true while a device is out of use whose reset has failed: perhaps only another process
  // can use it.
  bool is_lost() const noexcept { return is_lost_.load(std::memory_order_relaxed); }

 private:
  struct Entry {
    std::unique_ptr<device::Device> device;  // null: not opened yet
    OpenDevice open;
    bool is_out = false;
  };
  Entry& entry_of(const device::Device& device);
  // Opens the first device in use, if need be.
  Result<device::Device*> choose();

  std::vector<Entry> entries_;
  std::atomic<device::Device*> serving_;
  std::atomic<bool> is_lost_{false};
};

}  // namespace itif::serving
