// A UDP payload: parses it, then reads its contents as every kind that it could be.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "wire/classes.h"
#include "wire/datagram.h"
#include "wire/geometry.h"
#include "wire/payload.h"

namespace {

using namespace itif::wire;

void read_payload(const Datagram& datagram) {
  std::array<Range, kMaxRanges> ranges;
  const size_t count = parse_ranges(datagram.payload, datagram.header.total_bytes, ranges);
  for (size_t i = 0; i < count; ++i) {
    CHECK(ranges[i].bytes > 0);
    CHECK(ranges[i].bytes <= datagram.header.total_bytes - ranges[i].offset);
    CHECK(i == 0 || ranges[i].offset >= ranges[i - 1].offset + ranges[i - 1].bytes);
  }

  CHECK(utf8_valid(status_detail(datagram.payload)));
  ImagePrefix image;
  for (PayloadKind kind : {PayloadKind::kImageU8, PayloadKind::kImageF32})
    if (parse_image_prefix(kind, datagram.payload, datagram.header.total_bytes, image))
      CHECK(image_payload_bytes(kind, image) == datagram.header.total_bytes);

  ClassReader reader(datagram.payload);
  std::vector<ClassEntry> entries;
  for (ClassEntry entry; reader.next(entry);) entries.push_back(entry);
  if (reader.ok()) {
    std::vector<std::byte> again(encoded_classes_bytes(entries));
    CHECK(encode_classes(entries, again) == datagram.payload.size());
    CHECK(again.empty() || std::memcmp(again.data(), datagram.payload.data(), again.size()) == 0);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);
  Datagram datagram;
  const ParseError error = parse(bytes, datagram);
  CHECK(std::strcmp(parse_error_name(error), "?") != 0);
  if (error != ParseError::kNone) return 0;

  const Header& header = datagram.header;
  CHECK(header.header_bytes + datagram.payload.size() == size);
  if (header.type == Type::kRequest || header.type == Type::kResponse) {
    CHECK(fragment_size_valid(header.fragment_bytes));
    CHECK(datagram.payload.size() ==
          piece_bytes(header.total_bytes, header.fragment_bytes, header.offset));
    CHECK(header.offset / header.fragment_bytes <
          num_pieces(header.total_bytes, header.fragment_bytes));
  }
  read_payload(datagram);

  // Building the parsed datagram again gives the same bytes, except the tag, which is then valid.
  const Key key{};
  std::vector<std::byte> writable(bytes.begin(), bytes.end());
  Datagram original;
  CHECK(parse(writable, original) == ParseError::kNone);
  if (!open(key, original) && header.auth != Auth::kSealed)  // leaves the payload unchanged
    CHECK(std::memcmp(writable.data(), data, size) == 0);
  std::vector<std::byte> again(size);
  CHECK(build(header, datagram.payload, key, again) == size);
  CHECK(std::memcmp(again.data(), data, kHeaderBytes) == 0);
  Datagram rebuilt;
  CHECK(parse(again, rebuilt) == ParseError::kNone);
  CHECK(open(key, rebuilt) == (header.auth != Auth::kNone));
  CHECK(size == header.header_bytes ||
        std::memcmp(again.data() + header.header_bytes, data + header.header_bytes,
                    size - header.header_bytes) == 0);
  return 0;
}
