// Authentication tags, encryption and address tokens.
#include <sodium.h>

#include <algorithm>
#include <cstring>

#include "wire/aead.h"
#include "wire/datagram.h"
#include "wire/siphash.h"

namespace itif::wire {

namespace {

unsigned char* bytes_of(const std::byte* data) noexcept {
  return const_cast<unsigned char*>(reinterpret_cast<const unsigned char*>(data));
}

// Key and nonce of XChaCha20-Poly1305.
struct Sealing {
  // SipHash is a pseudorandom function, so its outputs for two fixed inputs make a key of 256 bits
  // that is as strong as the tenant's 128.
  Sealing(const Key& tenant_key, const Header& header) noexcept {
    static constexpr std::array<std::byte, 2> kHalves = {std::byte{1}, std::byte{2}};
    for (size_t half = 0; half < 2; ++half) {
      const auto part = siphash128(tenant_key, std::span(kHalves).subspan(half, 1), {});
      std::memcpy(key.data() + half * part.size(), part.data(), part.size());
    }
    // The direction follows from type and, for a resend, its flag.
    std::byte* out = nonce.data();
    std::memcpy(out, &header.sequence, 8);
    std::memcpy(out + 8, &header.request_id, 8);
    std::memcpy(out + 16, &header.session, 4);
    std::memcpy(out + 20, &header.type, 1);
    std::memcpy(out + 21, &header.flags, 2);
  }
  ~Sealing() { sodium_memzero(key.data(), key.size()); }

  std::array<std::byte, kAeadKeyBytes> key;
  std::array<std::byte, kAeadNonceBytes> nonce{};
};
static_assert(kAeadTagBytes == kTagBytes);

}  // namespace

std::array<std::byte, kTagBytes> compute_tag(const Key& key, const Header& header,
                                             std::span<const std::byte> payload) noexcept {
  const std::span<const std::byte> head(reinterpret_cast<const std::byte*>(&header), kHeaderBytes);
  return siphash128(
      key, head,
      tag_covers_payload(header.auth, header.type) ? payload : std::span<const std::byte>{});
}

bool same_tag(const std::array<std::byte, kTagBytes>& expected,
              std::span<const std::byte> received) noexcept {
  return received.size() == kTagBytes &&
         crypto_verify_16(bytes_of(expected.data()), bytes_of(received.data())) == 0;
}

bool verify_tag(const Key& key, const Datagram& datagram) noexcept {
  if (datagram.header.auth == Auth::kNone || datagram.header.auth == Auth::kSealed) return false;
  return same_tag(compute_tag(key, datagram.header, datagram.payload), datagram.tag);
}

std::array<std::byte, kTagBytes> encrypt(const Key& key, const Header& header,
                                         std::span<std::byte> payload) noexcept {
  const Sealing sealing(key, header);
  return aead_encrypt({sealing.key, sealing.nonce, std::as_bytes(std::span(&header, 1)), payload});
}

bool open(const Key& key, const Datagram& datagram) noexcept {
  if (datagram.header.auth != Auth::kSealed) return verify_tag(key, datagram);
  if (datagram.tag.size() != kTagBytes) return false;
  const Sealing sealing(key, datagram.header);
  const std::span payload(const_cast<std::byte*>(datagram.payload.data()), datagram.payload.size());
  return aead_decrypt(
      {sealing.key, sealing.nonce, std::as_bytes(std::span(&datagram.header, 1)), payload},
      datagram.tag.first<kTagBytes>());
}

uint64_t address_token(const Key& secret, const TokenInput& input, uint64_t period) noexcept {
  // Fixed-width fields, with the address's length: no two inputs share an encoding.
  struct [[gnu::packed]] {
    std::array<std::byte, 16> address{};
    uint64_t period;
    uint32_t session;
    uint16_t port;
    uint16_t receiver;
    uint16_t address_bytes;
  } hashed;
  const size_t address_bytes = std::min<size_t>(input.address.size(), 16);
  if (address_bytes > 0) std::memcpy(hashed.address.data(), input.address.data(), address_bytes);
  hashed.period = period;
  hashed.session = input.session;
  hashed.port = input.port;
  hashed.receiver = input.receiver;
  hashed.address_bytes = static_cast<uint16_t>(address_bytes);
  const auto hash = siphash128(secret, std::as_bytes(std::span(&hashed, 1)), {});
  const uint64_t token = load_bytes(hash.data(), 8);
  return token == 0 ? 1 : token;  // 0 on the wire means "no token"
}

}  // namespace itif::wire
