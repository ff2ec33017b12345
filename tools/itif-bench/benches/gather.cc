// itif-bench gather: gathers payloads from packet buffers, in GB/s: token ids by payload size and
// packets per launch, and images. The limit is a copy of the same number of contiguous bytes (GPU:
// by its copy engine, over the bus).
//
// Each case also runs with a copy of its packets to contiguous memory first, which zero copy saves.
//
// Packets lie in buffers of 2 KiB, as in an mbuf pool; the payload follows the headers. A launch
// takes packets in random order. Consecutive launches take different packets, because real packets
// are read only once.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "base/random.h"
#include "workload/devices.h"
#include "workload/operator_checks.h"

namespace itif::bench {
namespace {

constexpr uint32_t kPacketBytes = 2048;
constexpr uint32_t kHeaderBytes = 128 + 124;  // headroom; headers from Ethernet to the tag
constexpr uint32_t kSets = 8;                 // sets of packets, used in rotation
constexpr uint32_t kMaxPackets = 4096;
constexpr uint32_t kPayloads[] = {64, 256, 1368};
constexpr uint32_t kPacketCounts[] = {1, 8, 64, 512, kMaxPackets};
constexpr uint32_t kSide = 224, kPatch = 16, kChannels = 3;
constexpr uint32_t kImageBytes = kSide * kSide * kChannels;
constexpr uint32_t kPiecesOfImage = (kImageBytes + 1367) / 1368;
constexpr uint32_t kImageCounts[] = {1, 8, 32};
static_assert(kImageCounts[std::size(kImageCounts) - 1] * kPiecesOfImage <= kMaxPackets);
constexpr size_t kRegionBytes = size_t{kSets} * kMaxPackets * kPacketBytes;

struct Free {
  void operator()(void* data) const { std::free(data); }
};
using Region = std::unique_ptr<std::byte, Free>;

// Shared by all rows of a device.
struct Setting {
  device::Device& device;
  device::Stream& stream;
  const std::string dtype;
  const BenchOptions& options;
  Report& report;
};

// `count` packets of a set, in random order.
std::vector<std::byte*> packets_of(std::byte* region, uint32_t set, uint32_t count) {
  std::vector<std::byte*> all;
  std::byte* const first = region + size_t{set} * kMaxPackets * kPacketBytes + kHeaderBytes;
  for (uint32_t i = 0; i < kMaxPackets; ++i) all.push_back(first + size_t{i} * kPacketBytes);
  Random random(set + 1);
  for (size_t i = all.size() - 1; i > 0; --i) std::swap(all[i], all[random.below(i + 1)]);
  all.resize(count);
  return all;
}

// `copy_and_launch`: as `launch`, from copies of the packets.
Status add(const Setting& row, const std::string& name, size_t bytes_read, size_t bytes_written,
           const std::function<void()>& launch, const std::function<void()>& copy_and_launch) {
  const Hardware on = hardware_of(row.device.info());
  ITIF_ASSIGN(const auto limit, on.is_gpu ? bare_upload(on, 2 * bytes_read, short_repeats(on))
                                          : bare_copy(on, bytes_read + bytes_written, 1));
  ITIF_ASSIGN(const auto samples, measure_short(row.stream, on, {launch, copy_and_launch},
                                                {limit.get()}, row.options.effort()));
  const auto rate = [&](const Samples& samples) {
    return static_cast<double>(bytes_read) / samples.median();
  };
  for (const size_t i : {0, 1})
    row.report.add({.name = name,
                    .mode = i == 0 ? row.dtype : row.dtype + ", copied",
                    .value = rate(samples[i]),
                    .unit = "GB/s",
                    .spread = samples[i].spread(),
                    .limit = rate(samples[2]),
                    .ratio = rate(samples[i]) / rate(samples[2])});
  return {};
}

Status ids_row(const Setting& row, std::byte* region, uint32_t payload, uint32_t count) {
  const std::string name = fmt::format("ids, {} packets of {} bytes", count, payload);
  if (!row.options.wants(name)) return {};
  const uint32_t ids_of_packet = payload / 2;
  std::vector<std::vector<kernels::IdPiece>> sets(kSets);
  std::vector<int32_t> expected;  // of the first set
  for (uint32_t set = 0; set < kSets; ++set)
    for (const std::byte* packet : packets_of(region, set, count)) {
      sets[set].push_back({.data = packet,
                           .num_ids = ids_of_packet,
                           .first_row = static_cast<uint32_t>(sets[set].size()) * ids_of_packet,
                           .id_bytes = 2});
      for (uint32_t i = 0; set == 0 && i < ids_of_packet; ++i) {
        uint16_t id = 0;
        std::memcpy(&id, packet + 2 * i, sizeof id);
        expected.push_back(id);
      }
    }
  ITIF_ASSIGN(const auto out, row.device.allocate(expected.size() * sizeof(int32_t)));
  auto* const ids = reinterpret_cast<int32_t*>(out->data());
  uint32_t next = 0;
  const auto launch = [&] {
    row.stream.launch(
        kernels::GatherIds{.pieces = sets[next++ % kSets], .ids = ids, .vocab_size = 1 << 16});
  };
  std::vector<std::byte> copies(size_t{count} * payload);
  const kernels::IdPiece whole = {
      .data = copies.data(), .num_ids = count * ids_of_packet, .first_row = 0, .id_bytes = 2};
  const auto copy_and_launch = [&] {
    std::byte* to = copies.data();
    for (const kernels::IdPiece& piece : sets[next++ % kSets]) {
      std::memcpy(to, piece.data, payload);
      to += payload;
    }
    row.stream.launch(kernels::GatherIds{.pieces = {&whole, 1}, .ids = ids, .vocab_size = 1 << 16});
  };
  for (const std::function<void()>& each :
       {std::function<void()>(launch), std::function<void()>(copy_and_launch)}) {
    next = 0;
    each();
    ITIF_TRY(run_to_end(row.stream));
    std::vector<int32_t> got(expected.size());
    row.device.download(ids, got.size() * sizeof(int32_t), got.data());
    if (got != expected)
      return fail(Code::kInternal, name + ": gathered ids differ from the packets' ids");
  }
  return add(row, name, size_t{count} * payload, expected.size() * sizeof(int32_t), launch,
             copy_and_launch);
}

Status images_row(const Setting& row, std::byte* region, uint32_t count) {
  static constexpr float kScale[] = {1 / 127.5f, 1 / 127.5f, 1 / 127.5f}, kShift[] = {-1, -1, -1};
  const std::string name = fmt::format("pixels, {} images of {} packets", count, kPiecesOfImage);
  if (!row.options.wants(name)) return {};
  constexpr uint32_t kPatches = (kSide / kPatch) * (kSide / kPatch);
  constexpr uint32_t kValues = kChannels * kPatch * kPatch;
  std::vector<std::vector<BytePiece>> pieces;
  std::vector<std::vector<kernels::ImagePixels>> sets(kSets);
  for (uint32_t set = 0; set < kSets; ++set) {
    const auto packets = packets_of(region, set, count * kPiecesOfImage);
    for (uint32_t image = 0; image < count; ++image) {
      std::vector<BytePiece>& image_pieces = pieces.emplace_back();
      for (uint32_t i = 0; i < kPiecesOfImage; ++i)
        image_pieces.push_back(
            {packets[image * kPiecesOfImage + i], std::min(1368u, kImageBytes - 1368 * i)});
    }
  }
  for (uint32_t i = 0; i < kSets * count; ++i)
    sets[i / count].push_back(
        {.pieces = pieces[i], .first_row = i % count * kPatches, .scale = kScale, .shift = kShift});
  const DType type = row.device.info().compute.activations;
  const size_t values = size_t{count} * kPatches * kValues;
  ITIF_ASSIGN(const auto out, row.device.allocate(values * dtype_bytes(type)));
  uint32_t next = 0;
  const auto launch = [&] {
    row.stream.launch(kernels::GatherPatches{.images = sets[next++ % kSets],
                                             .height = kSide,
                                             .width = kSide,
                                             .channels = kChannels,
                                             .patch = kPatch,
                                             .out = out->data()});
  };
  std::vector<std::byte> copies(size_t{count} * kImageBytes);
  std::vector<BytePiece> whole;
  std::vector<kernels::ImagePixels> copied;
  for (uint32_t i = 0; i < count; ++i)
    whole.push_back({copies.data() + size_t{i} * kImageBytes, kImageBytes});
  for (uint32_t i = 0; i < count; ++i)
    copied.push_back(
        {.pieces = {&whole[i], 1}, .first_row = i * kPatches, .scale = kScale, .shift = kShift});
  const auto copy_and_launch = [&] {
    std::byte* to = copies.data();
    for (const kernels::ImagePixels& image : sets[next++ % kSets])
      for (const BytePiece& piece : image.pieces) {
        std::memcpy(to, piece.data, piece.bytes);
        to += piece.bytes;
      }
    row.stream.launch(kernels::GatherPatches{.images = copied,
                                             .height = kSide,
                                             .width = kSide,
                                             .channels = kChannels,
                                             .patch = kPatch,
                                             .out = out->data()});
  };
  launch();
  ITIF_TRY(run_to_end(row.stream));
  const auto got = read_values(row.device, out->data(), values, type);
  next = 0;
  copy_and_launch();
  ITIF_TRY(run_to_end(row.stream));
  if (read_values(row.device, out->data(), values, type) != got)
    return fail(Code::kInternal, name + ": pixels gathered from copies differ");
  ITIF_TRY(check_rows(
      name, got, count * kPatches, kValues, type == DType::kF32 ? 1e-5 : 0.01, [&](uint32_t at) {
        const std::vector<BytePiece>& image_pieces = pieces[at / kPatches];
        const uint32_t across = kSide / kPatch, patch = at % kPatches;
        std::vector<double> expected;
        for (uint32_t c = 0; c < kChannels; ++c)
          for (uint32_t y = 0; y < kPatch; ++y)
            for (uint32_t x = 0; x < kPatch; ++x) {
              const uint32_t pixel =
                  (patch / across * kPatch + y) * kSide + patch % across * kPatch + x;
              const uint32_t offset = pixel * kChannels + c;
              expected.push_back(
                  static_cast<int>(image_pieces[offset / 1368].data[offset % 1368]) / 127.5 - 1);
            }
        return expected;
      }));
  return add(row, name, size_t{count} * kImageBytes, values * dtype_bytes(type), launch,
             copy_and_launch);
}

}  // namespace

Status bench_gather(const BenchOptions& options, Report& report) {
  const Region region(static_cast<std::byte*>(std::aligned_alloc(2 << 20, kRegionBytes)));
  if (region == nullptr) return fail(Code::kResourceExhausted, "no memory for packets");
  Random random(1);
  for (size_t at = 0; at < kRegionBytes; at += sizeof(uint64_t)) {
    const uint64_t noise = random.next();
    std::memcpy(region.get() + at, &noise, sizeof noise);
  }
  return on_each_device(
      options, report, [&](device::Device& device, const std::string& dtype) -> Status {
        ITIF_TRY(device.register_host_memory(region.get(), kRegionBytes));
        ITIF_ASSIGN(const auto stream,
                    device.make_stream({.max_tokens = 1 << 16, .max_segments = 1 << 16}));
        stream->attach_thread();
        const Setting row{device, *stream, dtype, options, report};
        if (&dtype == &options.dtypes.front())  // ids do not depend on the type
          for (const uint32_t payload : kPayloads)
            for (const uint32_t count : kPacketCounts)
              ITIF_TRY(ids_row(row, region.get(), payload, count));
        for (const uint32_t count : kImageCounts) ITIF_TRY(images_row(row, region.get(), count));
        return {};
      });
}

}  // namespace itif::bench
