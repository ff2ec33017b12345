#include "wire/aead.h"

#include <intel-ipsec-mb.h>
#include <sodium.h>

#include <cstdlib>
#include <cstring>

namespace itif::wire {
namespace {

// libipsec-mb's queue of messages. It ends each message of this cipher within the call.
class Queue {
 public:
  Queue() noexcept : manager_(alloc_mb_mgr(0)) {
    if (manager_ == nullptr) std::abort();  // no memory
    init_mb_mgr_auto(manager_, nullptr);
  }
  ~Queue() { free_mb_mgr(manager_); }
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;
  IMB_MGR* get() const noexcept { return manager_; }

 private:
  IMB_MGR* manager_;
};
thread_local const Queue queue;

const unsigned char* bytes_of(std::span<const std::byte> bytes) noexcept {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}

// Encrypts or decrypts the text in place. Returns the tag.
std::array<std::byte, kAeadTagBytes> run(const AeadInput& input, IMB_CIPHER_DIRECTION direction,
                                         IMB_CHAIN_ORDER order) noexcept {
  constexpr size_t kHashedNonceBytes = 16;
  std::array<std::byte, 12> nonce{};  // RFC 8439's: 4 zeros and the rest of ours
  std::memcpy(nonce.data() + 4, input.nonce.data() + kHashedNonceBytes, 8);
  std::array<unsigned char, kAeadKeyBytes> subkey;
  crypto_core_hchacha20(subkey.data(), bytes_of(input.nonce), bytes_of(input.key), nullptr);
  std::array<std::byte, kAeadTagBytes> tag;

  IMB_JOB& job = *IMB_GET_NEXT_JOB(queue.get());
  job.cipher_mode = IMB_CIPHER_CHACHA20_POLY1305;
  job.hash_alg = IMB_AUTH_CHACHA20_POLY1305;
  job.cipher_direction = direction;
  job.chain_order = order;
  job.enc_keys = job.dec_keys = subkey.data();
  job.key_len_in_bytes = subkey.size();
  job.iv = reinterpret_cast<const uint8_t*>(nonce.data());
  job.iv_len_in_bytes = nonce.size();
  job.src = job.dst = reinterpret_cast<uint8_t*>(input.text.data());
  job.msg_len_to_cipher_in_bytes = job.msg_len_to_hash_in_bytes = input.text.size();
  job.cipher_start_src_offset_in_bytes = job.hash_start_src_offset_in_bytes = 0;
  job.u.CHACHA20_POLY1305.aad = input.associated.data();
  job.u.CHACHA20_POLY1305.aad_len_in_bytes = input.associated.size();
  job.auth_tag_output = reinterpret_cast<uint8_t*>(tag.data());
  job.auth_tag_output_len_in_bytes = tag.size();
  const IMB_JOB* const done = IMB_SUBMIT_JOB_NOCHECK(queue.get());
  if (done != &job || done->status != IMB_STATUS_COMPLETED) std::abort();
  sodium_memzero(subkey.data(), subkey.size());
  return tag;
}

}  // namespace

void prepare_aead() noexcept {
  (void)queue.get();
}

std::array<std::byte, kAeadTagBytes> aead_encrypt(const AeadInput& input) noexcept {
  return run(input, IMB_DIR_ENCRYPT, IMB_ORDER_CIPHER_HASH);
}

bool aead_decrypt(const AeadInput& input, std::span<const std::byte, kAeadTagBytes> tag) noexcept {
  const std::array<std::byte, kAeadTagBytes> computed =
      run(input, IMB_DIR_DECRYPT, IMB_ORDER_HASH_CIPHER);
  if (crypto_verify_16(bytes_of(computed), bytes_of(tag)) == 0) return true;
  if (!input.text.empty()) std::memset(input.text.data(), 0, input.text.size());
  return false;
}

}  // namespace itif::wire
