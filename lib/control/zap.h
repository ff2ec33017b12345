// ZeroMQ's authentication protocol (ZAP, RFC 27): says which CURVE clients may connect. Must
// be bound before the TCP socket: with no handler libzmq lets every client in.
#pragma once

#include <string>
#include <zmq.hpp>

namespace itif::control {

class ZapHandler {
 public:
  static constexpr const char* kDomain = "itif-control";

  // Binds in `context`. REQUIRES: no other handler there.
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
