// A flood by itif-loadgen over memif, to a worker and to dpdk-testpmd, and through the loopback
// interface to recvmmsg. Sender and receiver have one core each.
#include "benches/ingest_live.h"

#include <fmt/format.h>

#include <filesystem>
#include <optional>

#include "ingest/receivers.h"

namespace itif::bench {
namespace {

struct LiveCase {
  const char* name;
  const char* payload;
  uint32_t fragment_bytes;
  wire::Auth auth;
};
constexpr const char *kTokens = "tokens_u16", *kPicture = "image_f32:224x224x3";
constexpr LiveCase kLiveCases[] = {
    {"memif, 64 B, none", kTokens, 64, wire::Auth::kNone},
    {"memif, 64 B, header", kTokens, 64, wire::Auth::kHeader},
    {"memif, 64 B, full", kTokens, 64, wire::Auth::kFull},
    {"memif, 64 B, sealed", kTokens, 64, wire::Auth::kSealed},
    {"memif, 1 KB x 589, none", kPicture, 1024, wire::Auth::kNone},
    {"memif, 1 KB x 589, header", kPicture, 1024, wire::Auth::kHeader},
    {"memif, 1 KB x 589, full", kPicture, 1024, wire::Auth::kFull},
    {"memif, 1 KB x 589, sealed", kPicture, 1024, wire::Auth::kSealed},
    {"memif, 1,368 B x 441, none", kPicture, 1368, wire::Auth::kNone},
    {"memif, 1,368 B x 441, header", kPicture, 1368, wire::Auth::kHeader},
    {"memif, 1,368 B x 441, full", kPicture, 1368, wire::Auth::kFull},
};

// A folder that is removed with all in it.
class Scratch {
 public:
  static Result<Scratch> make() {
    std::string path = (std::filesystem::temp_directory_path() / "itif-bench-XXXXXX").string();
    if (::mkdtemp(path.data()) == nullptr)
      return fail(Code::kPermission, fmt::format("no folder {}: {}", path, errno_text(errno)));
    return Scratch(path);
  }
  Scratch(Scratch&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  Scratch& operator=(Scratch&&) = delete;
  ~Scratch() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  // Makes a folder in it.
  std::string folder(const std::string& name) const {
    std::error_code ignored;
    std::filesystem::create_directory(path_ + "/" + name, ignored);
    return path_ + "/" + name;
  }

 private:
  explicit Scratch(std::string path) : path_(std::move(path)) {}

  std::string path_;
};

class LiveBench {
 public:
  LiveBench(const BenchOptions& options, Report& report, RingPort& port, Scratch scratch)
      : options_(options), report_(report), port_(port), scratch_(std::move(scratch)) {}

  Status run(const std::vector<int>& cpus) {
    if (cpus.size() < 2) {
      report_.note("skipped memif and recvmmsg: sender and receiver need a CPU each");
      return {};
    }
    sender_cpu_ = cpus.front();
    receiver_cpu_ = cpus.back();
    loadgen_ = program_beside("itif-loadgen");
    testpmd_ = program_on_path("dpdk-testpmd");
    if (loadgen_.empty()) {
      report_.note("skipped memif and recvmmsg: no itif-loadgen beside this program");
      return {};
    }
    if (testpmd_.empty()) report_.note("skipped dpdk-testpmd: it is not on PATH (Debian: dpdk)");
    for (const LiveCase& one : kLiveCases)
      if (options_.wants(one.name)) ITIF_TRY(run_case(one));
    return {};
  }

 private:
  FloodOptions flood_of(const LiveCase& one, const char* receiver) {
    return {.program = loadgen_,
            .cpu = sender_cpu_,
            .folder = scratch_.folder(fmt::format("{}-{}", receiver, ++num_floods_)),
            .auth = one.auth,
            .payload = one.payload,
            .fragment_bytes = one.fragment_bytes};
  }

  Status run_case(const LiveCase& one) {
    const double seconds = options_.run_seconds();
    std::optional<double> testpmd;
    if (!testpmd_.empty()) {
      ITIF_ASSIGN(const Received got, receive_by_testpmd(flood_of(one, "testpmd"), testpmd_,
                                                         sender_cpu_, receiver_cpu_, seconds));
      testpmd = got.per_second;
    }
    ITIF_ASSIGN(const Received worker,
                receive_by_worker(flood_of(one, "worker"), port_.pool(), seconds));
    ITIF_ASSIGN(const Received socket, receive_by_recvmmsg(flood_of(one, "socket"), seconds));
    const auto row = [&](const char* mode, double value) {
      Row made{.name = one.name, .mode = mode, .value = value * 1e-6, .unit = "M/s"};
      if (testpmd) {
        made.limit = *testpmd * 1e-6;
        made.ratio = value / *testpmd;
      }
      report_.add(std::move(made));
    };
    row("worker", worker.per_second);
    row("recvmmsg", socket.per_second);
    report_.add({.name = one.name,
                 .mode = "answers",
                 .value = worker.answers_per_second * 1e-6,
                 .unit = "M/s"});
    report_.add({.name = one.name,
                 .mode = "worker / recvmmsg",
                 .value = worker.per_second / socket.per_second,
                 .unit = "times"});
    return {};
  }

  const BenchOptions& options_;
  Report& report_;
  RingPort& port_;
  const Scratch scratch_;
  std::string loadgen_, testpmd_;
  int sender_cpu_ = 0, receiver_cpu_ = 0;
  int num_floods_ = 0;
};

}  // namespace

bool wants_ingest_live(const BenchOptions& options) {
  for (const LiveCase& one : kLiveCases)
    if (options.wants(one.name)) return true;
  return false;
}

Status ingest_live(const BenchOptions& options, Report& report, RingPort& port,
                   const std::vector<int>& cpus) {
  ITIF_ASSIGN(Scratch scratch, Scratch::make());
  return LiveBench(options, report, port, std::move(scratch)).run(cpus);
}

}  // namespace itif::bench
