// Collects messages that other threads want to send. Only the I/O thread may use sockets, so it
// sends them. The descriptor is readable while messages wait.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <variant>
#include <vector>

#include "base/error.h"
#include "control/file.h"

namespace itif::control {

// The sender of a request: a connection of one of the server's ROUTER sockets.
struct Peer {
  size_t router = 0;
  std::string routing_id;
  bool delimiter = false;  // a REQ socket: an empty frame precedes the message
};

struct Reply {
  Peer peer;
  std::string message;
};

struct Event {
  std::string topic;  // "event" or "stats"
  std::string message;
};

using Outgoing = std::variant<Reply, Event>;

class Outbox {
 public:
  // Errors: kResourceExhausted (no descriptors left).
  static Result<std::unique_ptr<Outbox>> make();
  explicit Outbox(Descriptor event_fd) : event_fd_(std::move(event_fd)) {}

  void push(Outgoing outgoing);  // any thread
  // Wakes the I/O thread up, also if no message waits. Any thread.
  void wake();
  // Ends the I/O thread's work: a later take() returns is_last. Any thread.
  void close();
  struct Taken {
    std::vector<Outgoing> messages;
    bool is_last = false;  // all messages that were pushed before close() have been taken
  };
  // Takes all messages and resets the descriptor. I/O thread.
  Taken take();
  int descriptor() const { return event_fd_.get(); }

 private:
  Descriptor event_fd_;
  std::mutex mutex_;
  std::vector<Outgoing> waiting_;
  bool is_closed_ = false;
};

}  // namespace itif::control
