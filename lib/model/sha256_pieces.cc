#include "model/sha256_pieces.h"

#include <algorithm>

#include "base/check.h"
#include "model/ipsec_mb.h"

namespace itif::model {
std::vector<Sha256> sha256_pieces(std::span<const std::byte> bytes) {
  thread_local const IpsecMb manager;
  std::vector<Sha256> hashes((bytes.size() + kSha256PieceBytes - 1) / kSha256PieceBytes);
  size_t num_done = 0;
  const auto count = [&](const IMB_JOB* done) {
    CHECK(done->status == IMB_STATUS_COMPLETED);
    ++num_done;
  };
  for (Sha256& hash : hashes) {
    const auto piece = bytes.first(std::min(bytes.size(), kSha256PieceBytes));
    bytes = bytes.subspan(piece.size());
    IMB_JOB& job = *IMB_GET_NEXT_JOB(manager.get());
    job = {};
    job.cipher_mode = IMB_CIPHER_NULL;
    job.cipher_direction = IMB_DIR_ENCRYPT;
    job.chain_order = IMB_ORDER_HASH_CIPHER;
    job.hash_alg = IMB_AUTH_SHA_256;
    job.src = reinterpret_cast<const uint8_t*>(piece.data());
    job.msg_len_to_hash_in_bytes = piece.size();
    job.auth_tag_output = reinterpret_cast<uint8_t*>(hash.data());
    job.auth_tag_output_len_in_bytes = hash.size();
    for (const IMB_JOB* done = IMB_SUBMIT_JOB(manager.get()); done != nullptr;
         done = IMB_GET_COMPLETED_JOB(manager.get()))
      count(done);
  }
  while (const IMB_JOB* done = IMB_FLUSH_JOB(manager.get())) count(done);
  CHECK(num_done == hashes.size());
  return hashes;
}

}  // namespace itif::model
