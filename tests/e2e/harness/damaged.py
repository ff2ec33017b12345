"""Datagrams that break one rule of docs/protocol.md, sections 2 and 3, made from its worked examples with Scapy."""

from itif_scapy import Itif, ItifRange, ItifRanges, Raw, signed

# Example, changed fields, reason. itifd drops the datagram as wire_REASON, and the dissector
# marks it as itif.REASON.
CHANGES = [
    ("request", {"magic": 0x4650}, "bad_magic"),
    ("request", {"version": 1}, "bad_version"),
    ("request", {"version": 3}, "bad_version"),
    ("request", {"type": 0}, "bad_type"),
    ("request", {"type": 11}, "bad_type"),
    ("request", {"auth": 4}, "bad_header_size"),
    ("request", {"auth": 0}, "bad_header_size"),
    ("ping", {"header_bytes": 82}, "bad_header_size"),
    ("request", {"payload_bytes": 9}, "bad_length"),
    ("request", {"payload_bytes": 65535}, "bad_length"),
    ("request", {"payload_kind": 7}, "bad_kind"),
    ("request", {"result_kind": 9}, "bad_kind"),
    ("request", {"flags": 0x8000}, "bad_field"),
    ("request", {"flags": "of_response"}, "bad_field"),
    ("request", {"status": 1}, "bad_field"),
    ("request", {"aux": 1}, "bad_field"),
    ("ack", {"budget_us": 1}, "bad_field"),
    ("ack", {"fragment_bytes": 64}, "bad_field"),
    ("ack", {"offset": 4}, "bad_field"),
    ("ack", {"flags": "retry"}, "bad_field"),
    ("hello", {"token": 1}, "bad_field"),
    ("hello", {"sequence": 1 << 63}, "bad_field"),
    ("hello", {"key_epoch": 1}, "bad_field"),
    ("ping", {"result_kind": 1}, "bad_field"),
    ("ping", {"payload_kind": 1}, "bad_field"),
    ("resend_by_client", {"offset": 1368}, "bad_field"),
    ("resend_by_client", {"flags": "of_response+retry"}, "bad_field"),
    ("status_overloaded", {"status": 0}, "bad_field"),
    ("response", {"status": 1}, "bad_field"),
    ("request", {"fragment_bytes": 0}, "bad_geometry"),
    ("request", {"fragment_bytes": 60}, "bad_geometry"),
    ("request", {"fragment_bytes": 66}, "bad_geometry"),
    ("request", {"fragment_bytes": 8900}, "bad_geometry"),
    ("request", {"offset": 4}, "bad_geometry"),
    ("request", {"offset": 1368}, "bad_geometry"),
    ("request", {"total_bytes": 9}, "bad_geometry"),
    ("request", {"total_bytes": 0}, "bad_geometry"),
    ("request", {"total_bytes": (16 << 20) + 1}, "bad_geometry"),
    ("request_piece_0", {"offset": 4}, "bad_geometry"),
    ("request_piece_64", {"offset": 128}, "bad_geometry"),
    ("ping", {"total_bytes": 4}, "bad_geometry"),
    ("resend_by_client", {"total_bytes": 0}, "bad_geometry"),
    ("resend_by_client", {"fragment_bytes": 4}, "bad_geometry"),
    # Only a server sends these.
    ("response", {}, "unexpected_type"),
    ("status_overloaded", {}, "unexpected_type"),
    ("resend_by_server", {}, "unexpected_type"),
    ("busy", {}, "unexpected_type"),
    ("token", {}, "unexpected_type"),
    ("pong", {}, "unexpected_type"),
]


def damaged(examples, key):
    """[(name, datagram, reason)] for a client that sends them. Tags cover the changed fields."""
    made = []
    for name, changes, reason in CHANGES:
        packet = Itif(examples[name])
        changed = signed(packet, key, **changes) if packet.auth and "auth" not in changes else packet
        for field, value in changes.items():
            setattr(changed, field, value)
        label = ", ".join(f"{field}={value}" for field, value in changes.items())
        made.append((f"{name} {label}", bytes(changed), reason))
    request, resend = examples["request"], Itif(examples["resend_by_client"])
    many = ItifRanges(ranges=[ItifRange(offset=8 * at) for at in range(65)])
    resend.remove_payload()
    resend.payload_bytes = None
    ping = Itif(type="ping") / Raw(bytes(8897))
    return made + [
        ("nothing", b"", "too_short"),
        ("65 bytes", request[:65], "too_short"),
        ("a request without its last byte", request[:-1], "bad_length"),
        ("a request and a byte", request + b"\0", "bad_length"),
        ("a resend without ranges", bytes(signed(resend, key)), "bad_geometry"),
        ("a resend with half a range", bytes(signed(resend / Raw(bytes(4)), key)), "bad_geometry"),
        ("a resend with 65 ranges", bytes(signed(resend / many, key)), "bad_geometry"),
        ("a ping of 8897 bytes", bytes(ping), "bad_geometry"),
    ]
