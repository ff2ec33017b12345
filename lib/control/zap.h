// ZeroMQ's authentication protocol (ZAP, RFC 27): says which CURVE clients may connect. Must
// be bound before the TCP socket: with no handler libzmq lets every client in.
//
// Local endpoints are guarded by their files' modes, and let everyone in who got so far. They ask all
// the same, because libzmq refuses peers of ZMTP 1 and 2 where it must ask: in their handshake libzmq
// 4.3.4 aborts the process if the peer has hung up meanwhile.
#pragma once

#include <string>
#include <zmq.hpp>

namespace itif::control {

class ZapHandler {
 public:
  static constexpr const char* kDomain = "itif-control";     // CURVE
  static constexpr const char* kLocalDomain = "itif-local";  // no mechanism

  // Binds in `context`. The file is empty if nobody is let in over TCP. REQUIRES: no other handler
  // there.
  ZapHandler(zmq::context_t& context, std::string authorized_keys_file);

  zmq::socket_t& socket() { return socket_; }
  // Answers every request that waits. Reads the file anew each time, so that a key added or removed
  // counts from the next connection on.
  void poll();

 private:
  bool authorized(const std::string& public_key, std::string& name) const;

  std::string authorized_keys_file_;
  zmq::socket_t socket_;
};

}  // namespace itif::control
