"""Clients of the wire protocol in the clients' namespace, for tenants added with itifctl."""

import itertools
import json
import math
import struct
import threading
import time
from pathlib import Path

from itif_client import Client, Lost, Refused

from .appliance import UDP_PORT
from .namespaces import SERVER_IPV4

GOLDENS = Path(__file__).parents[2] / "data" / "goldens"


def connect(namespaces, added, auth=None, address=SERVER_IPV4, port=UDP_PORT, namespace=None, make=Client, **options):
    """A client of a tenant that `appliance.add_tenant` returned, by default in the clients' namespace and with the
    tenant's authentication."""
    tenant = added["tenant"]
    with namespaces.inside(namespace or namespaces.client):
        return make(address, port, tenant_id=tenant["id"], key=bytes.fromhex(added["key"]),
                      epoch=tenant["key_epoch"], auth=auth or tenant["auth"], **options)


def stranger(namespaces, address=SERVER_IPV4, **options):
    """A client that belongs to no tenant."""
    with namespaces.inside_client():
        return Client(address, UDP_PORT, **options)


class Recorder(Client):
    """A client that keeps every datagram that it sends and receives."""

    def __post_init__(self):
        super().__post_init__()
        self.sent, self.received = [], []

    def send_raw(self, data):
        self.sent.append(data)
        super().send_raw(data)

    def receive_raw(self, timeout_s):
        if (data := super().receive_raw(timeout_s)) is not None:
            self.received.append(data)
        return data


class Golden:
    """A small model and the answers of transformers."""

    def __init__(self, name):
        self.directory = GOLDENS / name
        cases = json.loads((self.directory / "golden.json").read_text(encoding="utf-8"))["cases"]
        self.cases = [case for case in cases if not any(case["token_types"])]

    def check(self, client, case, tolerance):
        self.compare(case, client.infer_tokens(case["ids"], result_kind=case["kind"], timeout_s=60), tolerance)

    @staticmethod
    def compare(case, answer, tolerance):
        assert answer.result_kind == case["kind"]
        got, expected = answer.floats(), case["values"]
        assert len(got) == len(expected), f"{case['kind']} of {len(case['ids'])} tokens"
        worst = max(abs(a - b) for a, b in zip(got, expected))
        assert worst <= tolerance, f"{case['kind']} of {len(case['ids'])} tokens: off by {worst}"


def same_floats(payload, expected):
    """Compares the float32 values of two answers to one request. On CPUs without AVX-512 their last bits depend on how
    the appliance divides the batch between GEMMs, which changes with time."""
    pairs = zip(struct.iter_unpack("<f", payload), struct.iter_unpack("<f", expected))
    return len(payload) == len(expected) and all(math.isclose(a, b, rel_tol=1e-4, abs_tol=1e-5) for (a,), (b,) in pairs)


class Traffic:
    """Sends requests one after the other in a thread until stopped, and records answers, refusals and losses."""

    def __init__(self, client, tokens=16, result_kind="logits"):
        self.client = client
        self.client.max_silent_tries = 8
        self.message_ids = [101] + [200 + i for i in range(tokens - 2)] + [102]
        self.result_kind = result_kind
        self.answers, self.refusals, self.losses = [], [], []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self):
        for turn in itertools.count():
            if self._stop.is_set():
                return
            ids = list(self.message_ids)
            ids[1] = 200 + turn % 500
            try:
                answer = self.client.infer_tokens(ids, result_kind=self.result_kind, timeout_s=60)
                self.answers.append((ids[1], answer.payload))
            except Refused as refused:
                self.refusals.append(refused.status)
                time.sleep(0.01)
            except Lost as lost:
                self.losses.append(str(lost))

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        self._stop.set()
        self._thread.join(30)

    def wait_for(self, answers, seconds=30):
        """Returns after `answers` more answers have arrived."""
        goal = len(self.answers) + answers
        deadline = time.monotonic() + seconds
        while len(self.answers) < goal:
            assert time.monotonic() < deadline, (
                f"{len(self.answers)} answers, refused {self.refusals[-3:]}, lost {self.losses[-3:]}")
            time.sleep(0.01)


def assert_accounted(appliance, settle_s=3.0, ports=True):
    """Asserts received = forwarded + held + Σ repeated + Σ dropped for every worker, every tenant and in total. No
    reason may be in both. With `ports` (if the driver counts) the datagrams that the ports delivered must equal those
    that the workers received. Returns the drops document."""
    deadline = time.monotonic() + settle_s
    while True:
        drops = appliance.ctl_json("drops")
        rows = [*drops["workers"], *drops["tenants"], drops["total"]]
        wrong = [row for row in rows
                 if row["received"] != row["forwarded"] + row["held"] + sum(row["repeated"].values())
                 + sum(row["dropped"].values()) or row["repeated"].keys() & row["dropped"].keys()]
        if ports and sum(port["rx_packets"] for port in drops["ports"]) != drops["total"]["received"]:
            wrong.append({"ports": drops["ports"], "total": drops["total"]})
        if sum(port["rx_missed"] + port["rx_no_mbuf"] for port in drops["ports"]) != drops["total"]["nic_missed"]:
            wrong.append({"ports": drops["ports"], "nic_missed": drops["total"]["nic_missed"]})
        if not wrong:
            return drops
        assert time.monotonic() < deadline, f"not accounted for: {wrong}"
        time.sleep(0.05)


def dropped(appliance, reason):
    """How many datagrams were dropped for this reason. Repeats are counted apart: see repeated()."""
    return appliance.ctl_json("drops")["total"]["dropped"].get(reason, 0)


def repeated(appliance, reason):
    return appliance.ctl_json("drops")["total"]["repeated"].get(reason, 0)


def wait_dropped(appliance, reason, count, seconds=5.0):
    """Returns when `count` datagrams have been dropped for this reason."""
    deadline = time.monotonic() + seconds
    while dropped(appliance, reason) < count:
        assert time.monotonic() < deadline, f"{reason} < {count}: {appliance.ctl_json('drops')['total']}"
        time.sleep(0.02)


def wait_until(condition, what, seconds=10.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what() if callable(what) else what}"
        time.sleep(0.02)


def run_meanwhile(function):
    """Runs a function in a thread; returns a function that waits for its result."""
    results = []

    def call():
        try:
            results.append(function())
        except BaseException as error:  # noqa: BLE001: the caller raises it
            results.append(error)

    thread = threading.Thread(target=call, daemon=True)
    thread.start()

    def result():
        thread.join(60)
        assert results, "it does not end"
        if isinstance(results[0], BaseException):
            raise results[0]
        return results[0]

    return result


def u16(*ids):
    return struct.pack(f"<{len(ids)}H", *ids)
