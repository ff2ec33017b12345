// ZeroMQ's authentication protocol (ZAP, RFC 27): decides which CURVE clients may connect. It must
// be bound before the TCP socket: without a handler libzmq accepts every client.
//
// Local endpoints are protected by their files' modes, so the handler accepts every local peer.
// They still use ZAP because libzmq then refuses ZMTP 1 and 2 peers. In the handshake with such a
// peer, libzmq 4.3.4 aborts the process if the peer has hung up.
#pragma once

#include <string>
#include <zmq.hpp>

namespace itif::control {

class ZapHandler {
 public:
  static constexpr const char* kDomain = "itif-control";     // CURVE
  static constexpr const char* kLocalDomain = "itif-local";  // no mechanism

  // Binds in `context`. An empty file name: no TCP endpoint. REQUIRES: `context` has no other
  // handler.
  ZapHandler(zmq::context_t& context, std::string authorized_keys_file);

  zmq::socket_t& socket() { return socket_; }
  // Answers every waiting request. Reads the file for each, so that added and removed keys take
  // effect with the next connection.
  void poll();

 private:
  bool authorized(const std::string& public_key, std::string& name) const;

  std::string authorized_keys_file_;
  zmq::socket_t socket_;
};

}  // namespace itif::control
