// Small parts of the client: timers, buffers, reassembly, decoding of results.
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <set>

#include "base/random.h"
#include "client/buffer_pool.h"
#include "client/reassembly.h"
#include "client/result.h"
#include "wire/classes.h"
#include "wire/geometry.h"

namespace itif::client {
namespace {

TEST(BufferPool, IsBoundedAndReuses) {
  BufferPool pool(1 << 20);
  auto a = pool.acquire(5000);
  ASSERT_NE(a.data, nullptr);
  EXPECT_GE(a.bytes, 5000u);
  EXPECT_EQ(pool.acquire(1 << 20).data, nullptr);
  const std::byte* first = a.data;
  pool.release(a);
  EXPECT_EQ(a.data, nullptr);
  auto b = pool.acquire(6000);
  EXPECT_EQ(b.data, first);
  pool.release(b);
  auto whole = pool.acquire(1 << 20);  // free buffers make room
  EXPECT_NE(whole.data, nullptr);
  pool.release(whole);
  BufferPool large(64 << 20);
  auto c = large.acquire(17'000'001);
  EXPECT_EQ(large.held_bytes(), 17'000'001u);
  large.release(c);
  EXPECT_EQ(large.held_bytes(), 0u);
}

wire::Datagram piece_of(const std::vector<std::byte>& message, uint32_t fragment, uint32_t offset) {
  wire::Datagram datagram;
  datagram.header.type = wire::Type::kResponse;
  datagram.header.total_bytes = static_cast<uint32_t>(message.size());
  datagram.header.fragment_bytes = static_cast<uint16_t>(fragment);
  datagram.header.offset = offset;
  datagram.payload = std::span(message).subspan(
      offset, wire::piece_bytes(datagram.header.total_bytes, fragment, offset));
  datagram.header.payload_bytes = static_cast<uint16_t>(datagram.payload.size());
  return datagram;
}

TEST(Reassembly, ListsMissingRanges) {
  BufferPool pool(1 << 20);
  const std::vector<std::byte> message(1000, std::byte{9});
  Reassembly response;
  EXPECT_EQ(response.add(piece_of(message, 100, 300), true, pool), Reassembly::Added::kPiece);
  EXPECT_EQ(response.add(piece_of(message, 100, 300), true, pool), Reassembly::Added::kDuplicate);
  EXPECT_EQ(response.add(piece_of(message, 100, 500), true, pool), Reassembly::Added::kPiece);
  std::array<wire::Range, 8> ranges;
  ASSERT_EQ(response.missing(ranges), 3u);
  EXPECT_EQ(ranges[0].offset, 0u);
  EXPECT_EQ(ranges[0].bytes, 300u);
  EXPECT_EQ(ranges[1].offset, 400u);
  EXPECT_EQ(ranges[1].bytes, 100u);
  EXPECT_EQ(ranges[2].offset, 600u);
  EXPECT_EQ(ranges[2].bytes, 400u);
  EXPECT_EQ(response.missing(std::span(ranges).first(1)), 1u);
  auto buffer = response.take();
  EXPECT_FALSE(response.started());
  pool.release(buffer);
}

TEST(Reassembly, ChangedGeometryStartsOver) {
  BufferPool pool(1 << 20);
  const std::vector<std::byte> first(1000, std::byte{1}), second(900, std::byte{2});
  Reassembly response;
  EXPECT_EQ(response.add(piece_of(first, 500, 0), true, pool), Reassembly::Added::kPiece);
  EXPECT_EQ(response.add(piece_of(second, 500, 0), true, pool), Reassembly::Added::kPiece);
  EXPECT_EQ(response.add(piece_of(second, 500, 500), true, pool), Reassembly::Added::kWhole);
  EXPECT_TRUE(std::ranges::equal(response.bytes(), second));
  auto buffer = response.take();
  pool.release(buffer);
}

// The answers of two runs may differ in their last bits.
TEST(Reassembly, PiecesOfTwoRunsAreNotJoined) {
  BufferPool pool(1 << 20);
  const std::vector<std::byte> first(1000, std::byte{1}), second(1000, std::byte{2});
  Reassembly response;
  EXPECT_EQ(response.add(piece_of(first, 500, 0), true, pool), Reassembly::Added::kPiece);
  for (const uint32_t offset : {500u, 0u}) {
    wire::Datagram piece = piece_of(second, 500, offset);
    piece.header.token = 9;
    EXPECT_EQ(response.add(piece, true, pool),
              offset == 500 ? Reassembly::Added::kPiece : Reassembly::Added::kWhole);
  }
  EXPECT_TRUE(std::ranges::equal(response.bytes(), second));
  auto buffer = response.take();
  pool.release(buffer);
}

TEST(Result, DecodesClassesAndFloats) {
  const wire::ClassEntry entries[] = {{2, 0.75f, "positive"}, {0, 0.25f, ""}};
  std::vector<std::byte> bytes(wire::encoded_classes_bytes(entries));
  ASSERT_EQ(wire::encode_classes(entries, bytes), bytes.size());
  const auto classes = decode_classes(bytes);
  ASSERT_TRUE(classes);
  ASSERT_EQ(classes->size(), 2u);
  EXPECT_EQ((*classes)[0].name, "positive");
  EXPECT_EQ((*classes)[0].index, 2u);
  EXPECT_FLOAT_EQ((*classes)[1].probability, 0.25f);
  bytes.pop_back();
  EXPECT_EQ(decode_classes(bytes).error().code, Code::kCorrupt);

  const float values[] = {1.5f, -2};
  const auto floats = decode_f32(std::as_bytes(std::span(values)));
  ASSERT_TRUE(floats);
  EXPECT_EQ(*floats, (std::vector<float>{1.5f, -2}));
  EXPECT_EQ(decode_f32(std::as_bytes(std::span(values)).first(7)).error().code, Code::kCorrupt);
  EXPECT_TRUE(decode_f32({})->empty());
}

TEST(Result, DecodesTokensAndText) {
  const uint32_t ids[] = {7, 58100, 0};
  const auto tokens = decode_tokens(std::as_bytes(std::span(ids)));
  ASSERT_TRUE(tokens);
  EXPECT_EQ(*tokens, (std::vector<uint32_t>{7, 58100, 0}));
  EXPECT_EQ(decode_tokens(std::as_bytes(std::span(ids)).first(6)).error().code, Code::kCorrupt);

  const std::string_view text = "Grüße";
  EXPECT_EQ(decode_text(std::as_bytes(std::span(text))).value_or(""), text);
  EXPECT_EQ(decode_text(std::as_bytes(std::span(text)).first(3)).error().code, Code::kCorrupt);
  EXPECT_EQ(decode_text({}).value_or("?"), "");
}

}  // namespace
}  // namespace itif::client
