// The pieces of a request's token ids: as they arrived, or as prepared.
#include "runtime/request_ids.h"

#include <gtest/gtest.h>

namespace itif::runtime {
namespace {

class RequestIdsTest : public ::testing::Test {
 protected:
  RequestIdsTest() {
    request_.payload_kind = wire::PayloadKind::kTokensU16;
    request_.num_tokens = 6;
    request_.pieces = pieces_;
  }
  std::vector<kernels::IdPiece> append(const PreparedInput* prepared, uint32_t first_row) {
    std::vector<kernels::IdPiece> pieces(1);  // of another request
    RequestIds(request_, prepared).append_to(pieces, first_row);
    return pieces;
  }
  static void expect(const kernels::IdPiece& piece, const void* data, uint32_t num_ids,
                     uint32_t first_row, uint8_t id_bytes) {
    EXPECT_EQ(piece.data, data);
    EXPECT_EQ(piece.num_ids, num_ids);
    EXPECT_EQ(piece.first_row, first_row);
    EXPECT_EQ(piece.id_bytes, id_bytes);
  }

  alignas(4) const std::byte packet_[2][8] = {};
  const request::Piece pieces_[2] = {{packet_[0], 8}, {packet_[1], 4}};
  request::Request request_;
};

TEST_F(RequestIdsTest, PiecesFollowEachOtherFromTheFirstRow) {
  const auto pieces = append(nullptr, 40);
  ASSERT_EQ(pieces.size(), 3u);
  expect(pieces[1], packet_[0], 4, 40, 2);
  expect(pieces[2], packet_[1], 2, 44, 2);
  EXPECT_EQ(RequestIds(request_, nullptr).num_pieces(), 2u);
  EXPECT_TRUE(RequestIds(request_, nullptr).cover_tokens());
}

TEST_F(RequestIdsTest, WideIdsAreHalfAsMany) {
  request_.payload_kind = wire::PayloadKind::kTokensU32;
  EXPECT_FALSE(RequestIds(request_, nullptr).cover_tokens());
  request_.num_tokens = 3;
  EXPECT_TRUE(RequestIds(request_, nullptr).cover_tokens());
  const auto pieces = append(nullptr, 0);
  ASSERT_EQ(pieces.size(), 3u);
  expect(pieces[1], packet_[0], 2, 0, 4);
  expect(pieces[2], packet_[1], 1, 2, 4);
}

TEST_F(RequestIdsTest, PreparedIdsReplaceThoseThatArrived) {
  PreparedInput prepared;
  prepared.ids = {7, 8, 9};
  EXPECT_FALSE(RequestIds(request_, &prepared).cover_tokens());
  request_.num_tokens = 3;
  EXPECT_TRUE(RequestIds(request_, &prepared).cover_tokens());
  EXPECT_EQ(RequestIds(request_, &prepared).num_pieces(), 1u);
  const auto pieces = append(&prepared, 5);
  ASSERT_EQ(pieces.size(), 2u);
  expect(pieces[1], prepared.ids.data(), 3, 5, 4);
}

TEST_F(RequestIdsTest, PreparedTokenTypesLeaveIdsWhereTheyArrived) {
  PreparedInput prepared;
  prepared.token_types = {0, 0, 0, 1, 1, 1};
  EXPECT_TRUE(RequestIds(request_, &prepared).cover_tokens());
  const auto pieces = append(&prepared, 0);
  ASSERT_EQ(pieces.size(), 3u);
  expect(pieces[2], packet_[1], 2, 4, 2);
}

}  // namespace
}  // namespace itif::runtime
