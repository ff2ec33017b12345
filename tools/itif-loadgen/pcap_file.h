// A capture file (pcap, nanoseconds, Ethernet) of the datagrams of a run, written with libpcap.
// Thread-safe: the sending threads share it.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/error.h"

namespace itif::loadgen {

class PcapFile {
 public:
  // max_packets: further frames are counted only. Errors: kPermission. REQUIRES: clock outlives the
  // file.
  static Result<std::unique_ptr<PcapFile>> create(const Clock& clock, const std::string& path,
                                                  uint64_t max_packets);
  ~PcapFile();

  // Writes a frame, the concatenation of `parts`, with the present time.
  void write(std::span<const std::span<const std::byte>> parts) noexcept;
  // Ends the file. Errors: kResourceExhausted, a write failed. REQUIRES: no write() follows.
  Status close();

  // "FILE: 120 datagrams", and how many were left out.
  std::string summary() const;
  bool is_cut() const noexcept { return left_out_ > 0; }

 private:
  struct Dump;
  PcapFile(const Clock& clock, std::string path, uint64_t max_packets, std::unique_ptr<Dump> dump);

  const Clock& clock_;
  const std::string path_;
  const uint64_t max_packets_;
  std::unique_ptr<Dump> dump_;  // null after close()
  std::mutex mutex_;            // guards the rest
  std::vector<std::byte> frame_;
  uint64_t written_ = 0;
  uint64_t left_out_ = 0;
};

}  // namespace itif::loadgen
