#include "control/zap.h"

#include <array>
#include <cstring>
#include <vector>

#include "base/log.h"
#include "control/curve.h"

namespace itif::control {
namespace {

// The frames of a ZAP request.
enum Frame : size_t {
  kVersion,
  kRequestId,
  kDomainFrame,
  kAddress,
  kIdentity,
  kMechanism,
  kPublicKey
};
constexpr size_t kNumFrames = 7;

}  // namespace

ZapHandler::ZapHandler(zmq::context_t& context, std::string authorized_keys_file)
    : authorized_keys_file_(std::move(authorized_keys_file)),
      socket_(context, zmq::socket_type::rep) {
  socket_.set(zmq::sockopt::linger, 0);
  socket_.bind("inproc://zeromq.zap.01");
}

bool ZapHandler::authorized(const std::string& public_key, std::string& name) const {
  const auto keys = read_authorized_keys(authorized_keys_file_);
  if (!keys) {
    log::error("control: all TCP clients are refused: {}", keys.error().message);
    return false;
  }
  for (const AuthorizedKey& known : *keys) {
    if (public_key.size() == known.key.size() &&
        std::memcmp(public_key.data(), known.key.data(), known.key.size()) == 0) {
      name = known.name;
      return true;
    }
  }
  return false;
}

void ZapHandler::poll() {
  for (;;) {
    std::vector<std::string> frames;
    zmq::message_t frame;
    do {
      if (!socket_.recv(frame, zmq::recv_flags::dontwait)) return;
      frames.push_back(frame.to_string());
    } while (frame.more());
    frames.resize(std::max(frames.size(), kNumFrames));

    std::string name;
    const bool curve = frames[kVersion] == "1.0" && frames[kDomainFrame] == kDomain &&
                       frames[kMechanism] == "CURVE";
    const bool local = frames[kVersion] == "1.0" && frames[kDomainFrame] == kLocalDomain &&
                       frames[kMechanism] == "NULL";
    const bool let_in = local || (curve && authorized(frames[kPublicKey], name));
    if (!let_in)
      log::warning("control: refused a client from {}: its key is not authorised",
                   frames[kAddress]);
    const std::array<std::string, 6> answer = {"1.0",
                                               frames[kRequestId],
                                               let_in ? "200" : "400",
                                               let_in ? "OK" : "key is not authorised",
                                               name,
                                               ""};
    for (size_t i = 0; i < answer.size(); ++i)
      socket_.send(zmq::buffer(answer[i]),
                   i + 1 < answer.size() ? zmq::send_flags::sndmore : zmq::send_flags::none);
  }
}

}  // namespace itif::control
