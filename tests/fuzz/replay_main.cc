// Runs a fuzz target without a fuzzer: every file of a corpus, then a bounded number of seeded
// mutations. `meson test --suite fuzz` uses it in an ordinary build. libFuzzer finds new inputs
// (-Dfuzz=true with CXX=clang++).
//
//   fuzz_<name> CORPUS_DIRECTORY [RUNS] [SEED]
//   fuzz_<name> FILE                               one input, to look at a crash
//
// An input that crashes the target is left in the working directory as crash-<target>.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "base/random.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
// Defined only if a sanitizer is linked.
extern "C" void __sanitizer_set_death_callback(void (*callback)()) __attribute__((weak));

namespace {

using Input = std::vector<uint8_t>;

constexpr size_t kMaxInputBytes = 64 * 1024;

const Input* current_input = nullptr;
std::string crash_file;

void save_current_input() {
  if (current_input == nullptr) return;
  const int file = open(crash_file.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  if (file < 0) return;
  if (write(file, current_input->data(), current_input->size()) < 0) return;
  close(file);
  constexpr char kText[] = "the input that crashed the target was saved as crash-<target>\n";
  if (write(STDERR_FILENO, kText, sizeof kText - 1) < 0) return;
}

void on_signal(int signal_number) {
  save_current_input();
  std::signal(signal_number, SIG_DFL);
  std::raise(signal_number);
}

void run(const Input& input) {
  current_input = &input;
  // An allocation of the exact size, so that AddressSanitizer sees a read past the end.
  const Input exact(input);
  LLVMFuzzerTestOneInput(exact.data(), exact.size());
  current_input = nullptr;
}

Input read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return Input(std::istreambuf_iterator<char>(file), {});
}

// Boundary values of lengths and offsets.
uint64_t boundary_value(itif::Random& random) {
  constexpr uint64_t kValues[] = {0,
                                  1,
                                  3,
                                  4,
                                  7,
                                  8,
                                  0x7f,
                                  0x80,
                                  0xff,
                                  0x100,
                                  0x7fff,
                                  0x8000,
                                  0xffff,
                                  0x10000,
                                  0xfffffffc,
                                  0x7fffffff,
                                  0x80000000,
                                  0xffffffff,
                                  UINT64_MAX / 2,
                                  UINT64_MAX};
  return kValues[random.below(std::size(kValues))];
}

size_t position(itif::Random& random, const Input& input) {
  return static_cast<size_t>(random.below(input.size() + 1));
}

void mutate(itif::Random& random, const std::vector<Input>& corpus, Input& input) {
  const auto at = [&](size_t i) { return input.begin() + static_cast<std::ptrdiff_t>(i); };
  switch (random.below(8)) {
    case 0:  // flip a bit
      if (!input.empty())
        input[random.below(input.size())] ^= static_cast<uint8_t>(1u << random.below(8));
      break;
    case 1:  // replace a byte
      if (!input.empty()) input[random.below(input.size())] = static_cast<uint8_t>(random.next());
      break;
    case 2: {  // write a boundary value
      const uint64_t value = boundary_value(random);
      const size_t bytes = size_t{1} << random.below(4);
      if (input.size() >= bytes) {
        const size_t where = static_cast<size_t>(random.below(input.size() - bytes + 1));
        for (size_t i = 0; i < bytes; ++i)
          input[where + i] = static_cast<uint8_t>(value >> (8 * i));
      }
      break;
    }
    case 3:  // truncate
      input.resize(position(random, input));
      break;
    case 4: {  // remove a span
      const size_t first = position(random, input);
      const size_t last = std::min(input.size(), first + static_cast<size_t>(random.below(16)));
      input.erase(at(first), at(last));
      break;
    }
    case 5: {  // insert bytes
      Input added(random.below(16) + 1);
      for (auto& byte : added) byte = static_cast<uint8_t>(random.next());
      input.insert(at(position(random, input)), added.begin(), added.end());
      break;
    }
    case 6: {  // repeat a span
      const size_t first = position(random, input);
      const size_t last = std::min(input.size(), first + static_cast<size_t>(random.below(64)));
      const Input copy(at(first), at(last));
      input.insert(at(position(random, input)), copy.begin(), copy.end());
      break;
    }
    case 7: {  // continue with the rest of another input
      const Input& other = corpus[random.below(corpus.size())];
      const size_t from = position(random, other);
      input.resize(position(random, input));
      input.insert(input.end(), other.begin() + static_cast<std::ptrdiff_t>(from), other.end());
      break;
    }
  }
  if (input.size() > kMaxInputBytes) input.resize(kMaxInputBytes);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: %s CORPUS_DIRECTORY|FILE [RUNS] [SEED]\n", argv[0]);
    return 2;
  }
  crash_file = "crash-" + std::filesystem::path(argv[0]).filename().string();
  if (__sanitizer_set_death_callback) __sanitizer_set_death_callback(save_current_input);
  for (int signal_number : {SIGABRT, SIGSEGV, SIGFPE, SIGILL, SIGBUS})
    std::signal(signal_number, on_signal);

  const std::filesystem::path path(argv[1]);
  if (std::filesystem::is_regular_file(path)) {
    run(read_file(path));
    return 0;
  }
  const uint64_t runs = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 20'000;
  const uint64_t seed = argc > 3 ? std::strtoull(argv[3], nullptr, 10) : 1;

  std::vector<std::filesystem::path> files;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(path, error))
    if (entry.is_regular_file()) files.push_back(entry.path());
  std::sort(files.begin(), files.end());  // so that a seed gives the same run on every machine
  if (files.empty()) {
    std::fprintf(stderr, "%s: no corpus there\n", path.c_str());
    return 2;
  }
  std::vector<Input> corpus{{}};
  for (const auto& file : files) corpus.push_back(read_file(file));

  for (const Input& input : corpus) run(input);
  itif::Random random(seed);
  for (uint64_t i = 0; i < runs; ++i) {
    Input input = corpus[random.below(corpus.size())];
    for (uint64_t changes = random.below(5) + 1; changes > 0; --changes)
      mutate(random, corpus, input);
    run(input);
  }
  std::printf("%zu inputs of %s and %llu mutations with seed %llu: no crash\n", corpus.size(),
              path.c_str(), static_cast<unsigned long long>(runs),
              static_cast<unsigned long long>(seed));
  return 0;
}
