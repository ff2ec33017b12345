#include "pcap_file.h"

#include <fmt/format.h>
#include <pcap/pcap.h>

#include <algorithm>
#include <utility>

namespace itif::loadgen {
namespace {

constexpr int kSnapshotBytes = 65535;

}  // namespace

struct PcapFile::Dump {
  ~Dump() {
    if (dumper != nullptr) pcap_dump_close(dumper);
    if (handle != nullptr) pcap_close(handle);
  }
  pcap_t* handle = nullptr;
  pcap_dumper_t* dumper = nullptr;
};

PcapFile::PcapFile(const Clock& clock, std::string path, uint64_t max_packets,
                   std::unique_ptr<Dump> dump)
    : clock_(clock), path_(std::move(path)), max_packets_(max_packets), dump_(std::move(dump)) {
  frame_.reserve(kSnapshotBytes);
}

PcapFile::~PcapFile() = default;

Result<std::unique_ptr<PcapFile>> PcapFile::create(const Clock& clock, const std::string& path,
                                                   uint64_t max_packets) {
  auto dump = std::make_unique<Dump>();
  dump->handle =
      pcap_open_dead_with_tstamp_precision(DLT_EN10MB, kSnapshotBytes, PCAP_TSTAMP_PRECISION_NANO);
  if (dump->handle == nullptr) return fail(Code::kResourceExhausted, "--pcap: no memory");
  dump->dumper = pcap_dump_open(dump->handle, path.c_str());
  if (dump->dumper == nullptr)
    return fail(Code::kPermission, fmt::format("--pcap {}", pcap_geterr(dump->handle)));
  return std::unique_ptr<PcapFile>(new PcapFile(clock, path, max_packets, std::move(dump)));
}

void PcapFile::write(std::span<const std::span<const std::byte>> parts) noexcept {
  const std::lock_guard lock(mutex_);
  if (written_ >= max_packets_) {
    ++left_out_;
    return;
  }
  frame_.clear();
  size_t bytes = 0;
  for (const std::span<const std::byte> part : parts) {
    bytes += part.size();
    const size_t room = std::min(part.size(), kSnapshotBytes - frame_.size());
    frame_.insert(frame_.end(), part.begin(), part.begin() + static_cast<std::ptrdiff_t>(room));
  }
  const uint64_t unix_ns = clock_.unix_ns();
  pcap_pkthdr header{};
  header.ts.tv_sec = static_cast<time_t>(unix_ns / 1'000'000'000);
  // The file's precision makes this field nanoseconds.
  header.ts.tv_usec = static_cast<suseconds_t>(unix_ns % 1'000'000'000);
  header.caplen = static_cast<uint32_t>(frame_.size());
  header.len = static_cast<uint32_t>(bytes);
  pcap_dump(reinterpret_cast<u_char*>(dump_->dumper), &header,
            reinterpret_cast<const u_char*>(frame_.data()));
  ++written_;
}

Status PcapFile::close() {
  // pcap_dump() reports no error: the stream keeps it.
  std::FILE* stream = pcap_dump_file(dump_->dumper);
  const bool failed = pcap_dump_flush(dump_->dumper) != 0 || std::ferror(stream) != 0;
  dump_.reset();
  if (failed)
    return fail(Code::kResourceExhausted,
                fmt::format("--pcap {}: could not write all datagrams: is the disk full?", path_));
  return {};
}

std::string PcapFile::summary() const {
  std::string text = fmt::format("{}: {} datagrams", path_, written_);
  if (left_out_ > 0)
    text += fmt::format("; {} later ones were left out (--pcap-packets)", left_out_);
  return text;
}

}  // namespace itif::loadgen
