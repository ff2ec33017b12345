// Measures what a worker's poll() costs per datagram. Frames are built and put into the port's ring
// untimed; then the time stamp counter is read before and after the polls that empty the ring.
//
// The worker is the appliance's: parse, verify, reassemble, hand over, and, if asked for, respond.
// The group behind it computes nothing, untimed. One thread does all in turn, also if there are
// several workers.
#pragma once

#include <rte_mbuf.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "ingest/arrivals.h"
#include "ingest/ring_port.h"
#include "ingest/worker_rig.h"
#include "net/address.h"
#include "pipeline/figures.h"

namespace itif::bench {

// A defect that all datagrams have.
enum class Fault : uint8_t {
  kNone,
  kBadTag,      // a flipped bit of the tag
  kBadMagic,    // not our format
  kOverloaded,  // no room for requests: each is refused with a status
  kDuplicate,   // pieces that have arrived before, with new sequence numbers
  kReplayed,    // all with the same sequence number: captured datagrams
};

struct LoadOptions {
  uint32_t payload_bytes = 64;  // of a request
  uint32_t fragment_bytes = 64;
  wire::Auth auth = wire::Auth::kHeader;
  uint32_t num_open = 1;  // ArrivalOrder
  bool shuffled = false;
  uint32_t num_tenants = 1;
  uint32_t burst = 64;  // datagrams that wait in the ring at once
  Fault fault = Fault::kNone;
  // Requests are given back at once, and their responses are built and sent, timed. Otherwise the
  // group keeps them until the round's end, and responses are not timed.
  bool responds = false;
  bool cold = false;                   // frames are not in the CPU's caches
  bool checksums_in_software = false;  // the port has not verified IP's and UDP's checksums
  uint32_t num_clients = 1;            // UDP ports of the client; each belongs to one of our ports
  uint16_t num_workers = 1;            // of each port, whose queue they share
  uint16_t first_worker = 0;           // RigOptions

  uint32_t num_pieces() const noexcept {
    return (payload_bytes + fragment_bytes - 1) / fragment_bytes;
  }
  // Bytes of a frame with a whole fragment, without Ethernet's checksum.
  uint32_t frame_bytes() const noexcept;
  // Datagrams that are built at once.
  uint32_t round_datagrams() const noexcept;
  // Packet buffers for received frames.
  uint32_t num_mbufs() const noexcept;
};

// Bursts during which the kernel gave the core to another thread do not count.
struct Pass {
  uint64_t datagrams = 0;
  uint64_t bytes = 0;   // of frames
  uint64_t cycles = 0;  // of the time stamp counter

  double cycles_per_datagram() const noexcept {
    return static_cast<double>(cycles) / static_cast<double>(datagrams);
  }
};

class WorkerLoad {
 public:
  // `frames`: the pool of the received frames, with options.num_mbufs() buffers or more. `ports`
  // and `frames` outlive the load. Errors: those of WorkerRig::make.
  static Result<std::unique_ptr<WorkerLoad>> make(std::vector<RingPort*> ports, rte_mempool* frames,
                                                  const LoadOptions& options, const Clock& clock);
  static Result<std::unique_ptr<WorkerLoad>> make(RingPort& port, rte_mempool* frames,
                                                  const LoadOptions& options, const Clock& clock) {
    return make(std::vector{&port}, frames, options, clock);
  }
  ~WorkerLoad();

  // The rate of the time stamp counter. REQUIRES: EAL runs.
  static double cycles_per_second();

  // Opens the window of requests, then checks, untimed: payloads of requests and, if the options
  // ask for responses, their tags. Errors: kInternal: a result was wrong.
  Status check(uint32_t datagrams);
  // Runs at least `datagrams` datagrams through the worker.
  Pass run(uint32_t datagrams);
  // Receives and frees the same frames, without a worker: the limit.
  Pass run_bare(uint32_t datagrams);
  // Completes all open requests. Errors: kInternal: a datagram or request was lost, counted wrongly
  // or ended otherwise than the options say.
  Status finish();

  pipeline::Worker& worker() noexcept { return rig_->worker(); }
  pipeline::Workers workers() const noexcept { return rig_->workers(); }
  // Polls each worker once; returns the amount of work done.
  size_t poll() noexcept;
  // Returns true if no port has frames left for a worker.
  bool is_empty() const noexcept;
  // For a caller that polls by itself: builds a round of frames; puts the next burst of them into
  // the ring and returns their number, 0 at the end.
  void build_round();
  size_t put_burst();
  uint64_t num_sent() const noexcept { return sent_; }  // datagrams built so far
  // Returns true if each datagram is answered in the poll that receives it.
  bool answers_all() const noexcept { return options_.fault == Fault::kOverloaded; }
  // The group takes requests and gives them back; sent frames are freed. Untimed.
  void serve();
  // Serves and polls until nothing is left to do.
  void settle();

 private:
  WorkerLoad(std::vector<RingPort*> ports, rte_mempool* frames, const LoadOptions& options,
             std::unique_ptr<WorkerRig> rig);

  size_t client_of(uint64_t request) const noexcept { return request % clients_.size(); }
  RingPort& port_of(size_t client) noexcept { return *ports_[client % ports_.size()]; }
  void make_tokens();
  rte_mbuf* build(const Arrivals::Piece& piece);
  // Adds the time of step(), for `datagrams`, unless the kernel interrupted it.
  template <class Step>
  void time(Pass& pass, uint64_t datagrams, Step&& step);
  void time_answers(Pass& pass);
  void free_sent();
  bool is_question(const rte_mbuf& mbuf) const noexcept;
  // Frees frames that the worker has sent, and counts its questions.
  void free_frames(std::span<rte_mbuf*> frames) noexcept;
  Status check_requests() const;
  Status check_sent();

  const std::vector<RingPort*> ports_;
  rte_mempool* const frames_;
  const LoadOptions options_;
  std::unique_ptr<WorkerRig> rig_;
  std::vector<std::byte> payload_;
  std::vector<net::Endpoint> clients_;  // as each sees both ends
  Arrivals arrivals_;
  struct Frame {
    rte_mbuf* mbuf;
    RingPort* port;
  };
  std::vector<Frame> round_;
  std::vector<rte_mbuf*> burst_;  // being put into a port
  size_t at_ = 0;                 // the next frame of the round
  uint64_t sent_ = 0, bytes_sent_ = 0;
  uint64_t num_questions_ = 0;  // of the worker, for missing pieces
  uint64_t last_sequence_ = 0;
  std::vector<uint64_t> tokens_;  // of each client, in the round
  uint64_t overhead_cycles_ = 0;
};

}  // namespace itif::bench
