// XChaCha20-Poly1305 in place (draft-irtf-cfrg-xchacha-03), for sealed datagrams.
//
// HChaCha20 makes a subkey of the key and the first 16 bytes of the nonce (libsodium). The rest is
// RFC 8439's ChaCha20-Poly1305, in vector registers (libipsec-mb). libsodium alone gives the same
// bytes, but takes twice as long for 1,024 bytes and six times as long for 8,192.
//
// Any thread. The first call in a thread allocates libipsec-mb's state: see prepare_aead().
#pragma once

#include <array>
#include <cstddef>
#include <span>

namespace itif::wire {

constexpr size_t kAeadKeyBytes = 32;
constexpr size_t kAeadNonceBytes = 24;
constexpr size_t kAeadTagBytes = 16;

struct AeadInput {
  std::span<const std::byte, kAeadKeyBytes> key;
  std::span<const std::byte, kAeadNonceBytes> nonce;
  std::span<const std::byte> associated;  // authenticated, not encrypted
  std::span<std::byte> text;              // encrypted or decrypted in place
};

// Allocates this thread's state now.
void prepare_aead() noexcept;
// Encrypts input.text. Returns the tag.
std::array<std::byte, kAeadTagBytes> aead_encrypt(const AeadInput& input) noexcept;
// Decrypts input.text. Returns false, and zeroes the text, if the tag does not match the input.
// The comparison takes constant time.
bool aead_decrypt(const AeadInput& input, std::span<const std::byte, kAeadTagBytes> tag) noexcept;

}  // namespace itif::wire
