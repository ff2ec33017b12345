#include "net/drop_explanation.h"

#include <array>

#include "base/check.h"

namespace itif::net {
namespace {

constexpr std::string_view kNoAction = "No action is needed.";
constexpr std::string_view kCheckSender =
    "Find the sender (dpdk-dumpcap): its network card, driver or program is faulty, or it scans.";
constexpr std::string_view kCheckClient =
    "Check the client's library against docs/protocol.md; other programs may send to this port.";
constexpr std::string_view kCheckLink =
    "Check cables, optics and switches; on a veth or memif turn off the sender's checksum offload.";
constexpr std::string_view kManyRequests =
    "Raise the limit if memory allows; otherwise the device is too slow for the load, or clients "
    "send requests only in part.";
constexpr std::string_view kOneTenant =
    "Ask the tenant to send less at once, set its quota, or raise the limit for one tenant.";

// By DropReason. The first is kNone's.
constexpr std::array<DropExplanation, kNumDropReasons> kExplanations = {{
    {"", ""},
    // Frame.
    {"The frame is shorter than the headers that it claims to have.", kCheckSender},
    {"The frame is larger than a packet buffer.",
     "Raise data_plane.mbuf_bytes, or lower the MTU of the link."},
    {"The frame is for another MAC address, or is neither ARP, IPv4 nor IPv6.",
     "No action is needed unless it rises fast: then the switch floods frames of other hosts."},
    {"The frame is tagged with another VLAN than ports[].vlan, or with more than two VLANs.",
     "Set ports[].vlan, or take the VLAN off the switch's port."},
    {"The source is a multicast MAC address, our own IP address, or no address to reply to.",
     "Look for another host with the same IP address, or for forged packets."},
    {"The IP header contradicts itself or the length of the frame.", kCheckSender},
    {"The packet has an IP option or an IPv6 extension header that a host must not ignore.",
     "Remove it at the sender or in the network: the appliance supports none."},
    {"The packet is a fragment of an IP packet, on which the protocol never relies.",
     "Send smaller pieces (--fragment-bytes of the client) that fit the MTU of the whole path."},
    {"The packet is for an IP address that the port does not have.",
     "Add the address to ports[].ipv4 or ports[].ipv6, or correct the route that leads here."},
    {"The IPv4 header's checksum is wrong: the packet was damaged.", kCheckLink},
    {"The packet is neither UDP nor ICMP.",
     "Find the sender if it rises: the appliance has no TCP."},
    {"The UDP header's length contradicts that of the packet.", kCheckSender},
    {"The UDP checksum is wrong: the packet was damaged.", kCheckLink},
    {"The datagram is for another UDP port than ports[].udp_port. Its sender is told so (ICMP).",
     "Correct the client's port, or ports[].udp_port."},
    // Spreading.
    {"The worker of the datagram's flow takes its datagrams more slowly than they arrive.",
     "Raise ports[].num_workers or ports[].rx_descriptors; a single flow has one worker, so spread "
     "its requests over several client ports."},
    // Neighbour and ICMP.
    {"The ARP packet is malformed.", kCheckSender},
    {"The ARP packet asks for another host's address, or is no request.", kNoAction},
    {"Another host on the link says that it has one of our IP addresses.",
     "Give one of the two another address; itifd's log names the host's MAC address."},
    {"The ICMP message is malformed.", kCheckSender},
    {"The ICMP message's checksum is wrong: it was damaged.", kCheckLink},
    {"The ICMP message is not an echo request, a neighbour solicitation for us or an MLDv2 query.",
     kNoAction},
    // Datagram.
    {"The datagram is shorter than a header of the protocol.", kCheckClient},
    {"The datagram does not begin with the protocol's magic number.", kCheckClient},
    {"The datagram has another version of the protocol.", "Update the client or the appliance."},
    {"The datagram is of a type that the protocol does not have.", kCheckClient},
    {"The header says a length that its type does not have.", kCheckClient},
    {"The datagram's length is not the one that its header says.", kCheckClient},
    {"The payload is of a kind that the protocol does not have.", kCheckClient},
    {"The piece lies outside its payload, or the payload can have no such length.", kCheckClient},
    {"A field or flag that must be zero is not.",
     "Update the appliance if the client is newer; otherwise correct the client."},
    {"The datagram is of a type that only a server sends.", kCheckClient},
    // Tenant and admission.
    {"No tenant has the id in the header.",
     "Give the client the id that `itifctl tenant list` shows, or add the tenant."},
    {"The datagram is authenticated more weakly than the tenant requires, or than the request that "
     "it is about.",
     "Set the client's `auth` as `itifctl tenant show` says, or update the tenant's."},
    {"The key's epoch is neither the tenant's current nor its previous one.",
     "Give the client the new key: it was rotated (`itifctl tenant rotate-key`)."},
    {"The tag is wrong: another key, or a changed datagram.",
     "Give the client the tenant's key; if it has it, someone guesses or the network damages "
     "data."},
    {"The client has not proven its address, or its address token is too old.",
     "No action is needed if it stays near the number of clients; otherwise update the "
     "client, or someone sends from forged addresses."},
    {"The datagram's sequence number was accepted before, or is too old to know.",
     "No action is needed if the network duplicates or reorders packets; otherwise someone "
     "sends captured datagrams again."},
    {"The worker has no room for another client's session, or the tenant's share is used.",
     "Raise data_plane.max_sessions, or let clients keep their port and session between "
     "requests."},
    {"A reply to an unproven address, or to a ping of ICMP, would exceed "
     "data_plane.max_unproven_replies.",
     "Look for forged source addresses; raise the limit if many new clients share a network."},
    {"The tenant is paused, or its model is not loaded.",
     "Resume it (`itifctl tenant resume`), or see its state in `itifctl tenant show`."},
    {"The appliance drains: it takes no new requests.",
     "Send to another appliance, or end the drain (`itifctl undrain`)."},
    {"Another process has taken over and answers instead.",
     "No action is needed: both processes receive packets while a handover ends."},
    {"The tenant sends more requests per second than its quota.",
     "Raise it (`itifctl tenant update --quota-rps`), or let the client send less."},
    {"The payload is longer than the tenant's model accepts.",
     "Send less text, or set the client's `truncate` flag where it helps."},
    {"The tenant's model does not take this kind of payload.",
     "Send the kind that the model takes: text, token ids or an image."},
    // Reassembly.
    {"The worker has as many requests in progress as data_plane.max_contexts allows.",
     kManyRequests},
    {"The tenant has as many requests in progress as data_plane.tenant_max_contexts or its share "
     "allows.",
     kOneTenant},
    {"Requests hold as many packet buffers as data_plane.max_held_bytes or data_plane.mbufs "
     "allows.",
     kManyRequests},
    {"The tenant's requests hold as many packet buffers as data_plane.tenant_max_held_bytes or its "
     "share allows.",
     kOneTenant},
    {"The worker has no room for the list of the request's pieces.",
     "No setting raises it: let clients send larger pieces (--fragment-bytes), or raise "
     "ports[].num_workers, because each worker has as much room."},
    {"The tenant's requests use as much of the room for lists of pieces as its share allows.",
     kOneTenant},
    {"The request is cut into more pieces than a request may have.",
     "Send larger pieces (--fragment-bytes of the client)."},
    {"The piece belongs to a request that was just refused.",
     "See the other reasons: one of them refused its first piece."},
    {"The piece contradicts the first piece of its request.", kCheckClient},
    {"The piece has already arrived.",
     "No action is needed if it is rare; otherwise the client's timeout is too short for the "
     "path."},
    {"The piece is of a request that already runs.",
     "No action is needed if it is rare; otherwise the client's timeout is shorter than the answer "
     "takes."},
    {"No piece of the request arrived for data_plane.reassembly_timeout, or not all in ten times "
     "that.",
     "Look for loss between client and appliance, or raise the timeout for slow senders."},
    {"The request's deadline passed before all of its pieces had arrived.",
     "Allow a longer deadline, or look for loss and slow links."},
    // Responses.
    {"The request is repeated and its answer is in the cache, which sends it again.",
     "No action is needed if it is rare; otherwise answers are lost on the way to the client."},
    {"The client asks for, or acknowledges, an answer that the cache no longer has.",
     "No action is needed if it is rare; otherwise raise data_plane.cache_ttl or cache_bytes."},
    {"The client asks for an answer that is being sent.",
     "No action is needed if it is rare; otherwise the client's timeout is shorter than the "
     "answer takes."},
    {"The client has asked for the same answer too often.",
     "Look for heavy loss between appliance and client, or for a client that only asks "
     "again."},
    {"No packet buffer was free for the answer.", "Raise data_plane.mbufs."},
    {"The queue of answers to send is full.",
     "The link or the clients take answers too slowly: use a faster link or more queues."},
}};

constexpr bool are_complete() {
  for (size_t i = 1; i < kNumDropReasons; ++i)
    if (kExplanations[i].means.empty() || kExplanations[i].remedy.empty()) return false;
  return true;
}
static_assert(are_complete(), "an explanation for every reason");

}  // namespace

const DropExplanation& explain_drop(DropReason reason) {
  const auto index = static_cast<size_t>(reason);
  CHECK(index > 0 && index < kNumDropReasons);
  return kExplanations[index];
}

std::optional<DropReason> find_drop_reason(std::string_view name) {
  for (size_t i = 1; i < kNumDropReasons; ++i)
    if (const auto reason = static_cast<DropReason>(i); drop_reason_name(reason) == name)
      return reason;
  return std::nullopt;
}

}  // namespace itif::net
