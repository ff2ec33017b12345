"""Requests over a link that loses, damages, duplicates, delays and reorders frames. Each is answered once, with the
values that it is answered with over a good link. Run it with -s to see the extra traffic."""

import collections
import json
import random
import struct
import subprocess
import time

import pytest
from harness.appliance import Appliance, program
from harness.clients import assert_accounted, connect, same_floats, wait_until
from harness.impaired_link import Impairments
from harness.namespaces import SERVER_IPV4, ImpairedNamespaces
from itif_client import Refused, offsets

ROWS = {
    "none": Impairments(),
    "loss 0.1 %": Impairments(loss_percent=0.1),
    "loss 1 %": Impairments(loss_percent=1),
    "loss 5 %": Impairments(loss_percent=5),
    "loss 20 %": Impairments(loss_percent=20),
    "loss 30 %": Impairments(loss_percent=30),
    "reorder 25 %": Impairments(delay_ms=5, reorder_percent=25),
    "duplicate 5 %": Impairments(duplicate_percent=5),
    "delay 20 ± 10 ms": Impairments(delay_ms=20, jitter_ms=10),
    "corrupt 1 %": Impairments(corrupt_percent=1),
    "all at once": Impairments(loss_percent=30, reorder_percent=25, duplicate_percent=5, delay_ms=20, jitter_ms=10,
                               corrupt_percent=1),
}  # fmt: skip
SIDE = 224
IMAGE_FRAGMENT = 1004  # bytes: 150 pieces
# With a loss of 30 % each way, half of the round trips fail: of five sends, the default, all fail
# for 3 % of the requests.
TRIES = 20
TIMEOUT_S = 20
SETTLE_S = 0.3  # longer than the link delays a frame


def image(rng):
    return struct.pack("<4H", SIDE, SIDE, 3, 0) + rng.randbytes(SIDE * SIDE * 3)


def tokens(rng, count):
    return struct.pack(f"<{count}H", *rng.choices(range(999, 9999), k=count))


class Requests:
    """The requests of itif_client.py in each row, and their answers over a good link."""

    def __init__(self, tenant, kind, payloads, result_kind, fragment_bytes=1368):
        self.tenant, self.kind, self.payloads, self.result_kind = tenant, kind, payloads, result_kind
        self.fragment_bytes = fragment_bytes
        self.expected = []
        self.least = {"from_client": 1, "from_server": 1}  # datagrams: hello and token

    def ask(self, namespaces):
        """Sends one request after the other and returns the answers, or the status for one that is refused."""
        answers = []
        with connect(namespaces, self.tenant, fragment_bytes=self.fragment_bytes, max_silent_tries=TRIES) as client:
            client.hello(TIMEOUT_S)
            for payload in self.payloads:
                try:
                    message = client.message(self.kind, payload, result_kind=self.result_kind)
                    answers.append(client.infer(message, TIMEOUT_S))
                except Refused as refused:
                    answers.append(refused.status)
        return answers

    def run(self, namespaces):
        """Checks the answers, and returns how many requests were answered and how many refused by status."""
        answers = self.ask(namespaces)
        refused = collections.Counter(answer for answer in answers if isinstance(answer, str))
        for answer, expected in zip(answers, self.expected):
            assert isinstance(answer, str) or same_floats(answer.payload, expected)
        return len(answers) - refused.total(), refused

    def learn(self, namespaces):
        answers = self.ask(namespaces)
        self.expected = [answer.payload for answer in answers]
        for payload, answer in zip(self.payloads, answers):
            acks = answer.pieces > 1
            self.least["from_client"] += len(offsets(len(payload), self.fragment_bytes)) + acks
            self.least["from_server"] += answer.pieces


class Load:
    """The requests of itif-loadgen in each row. Each answer is one datagram."""

    def __init__(self, file, count, pieces, *options):
        self.count = count
        self.least = {"from_client": 1 + count * pieces, "from_server": 1 + count}
        self.command = (program("itif-loadgen"), SERVER_IPV4, "--tenants", file, "--requests", str(count), "--duration",
                        "60s", "--drain", f"{TIMEOUT_S}s", "--tries", str(TRIES), "--timeout", f"{TIMEOUT_S}s",
                        "--result", "logits", "--quiet", "--json", "-", *options)  # fmt: skip

    def run(self, namespaces):
        result = subprocess.run(("ip", "netns", "exec", namespaces.client, *self.command), stdin=subprocess.DEVNULL,
                                capture_output=True, text=True, timeout=60)  # fmt: skip
        assert result.stdout, result.stderr
        total = json.loads(result.stdout)["total"]
        assert total["sent"] == self.count and total["lost"] == 0, total
        assert total["answered"] + total["refused"] == self.count, total
        return total["answered"], collections.Counter(total["refused_by_status"])


class Setting:
    """An appliance behind the link, with a model of texts and one of images."""

    def __init__(self, appliance, namespaces, models):
        self.appliance, self.namespaces = appliance, namespaces
        texts = appliance.add_tenant("texts", models())
        images = appliance.add_tenant("images", models(backbone="vit-tiny --layers 2 --hidden 48"), "--auth", "header")
        rng = random.Random(1)
        self.small = [
            Requests(texts, "tokens_u16", [tokens(rng, 16) for _ in range(16)], "logits"),
            # Answers of 140 datagrams.
            Requests(texts, "tokens_u16", [tokens(rng, 375) for _ in range(2)], "hidden"),
            Load(self._file(texts), 150, 1, "--rate", "200", "--lengths", "fixed:16"),
        ]
        self.images = [
            Requests(images, "image_u8", [image(rng) for _ in range(3)], "logits", IMAGE_FRAGMENT),
            Load(self._file(images), 8, 150, "--concurrency", "8", "--payload", f"image_u8:{SIDE}x{SIDE}x3",
                 "--fragment-bytes", str(IMAGE_FRAGMENT)),
        ]  # fmt: skip
        for requests in (*self.small[:2], self.images[0]):
            requests.learn(namespaces)

    def _file(self, added):
        path = self.appliance.directory / f"{added['tenant']['name']}.json"
        path.write_text(json.dumps(added), encoding="utf-8")
        return path

    def totals(self):
        return self.appliance.ctl_json("stats")["total"]

    def run(self, row, work, record_property):
        """Does the work over the link of a row and checks it. Returns the link's counts and the datagrams that the
        appliance dropped, by reason."""
        before, drops_before = self.totals(), assert_accounted(self.appliance)["total"]
        self.namespaces.impair(ROWS[row])
        started = time.monotonic()
        answered, refused = 0, collections.Counter()
        try:
            for each in work:
                more_answered, more_refused = each.run(self.namespaces)
                answered += more_answered
                refused += more_refused
            seconds = time.monotonic() - started
            time.sleep(SETTLE_S)
        finally:
            counts = self.namespaces.impair(Impairments())
        wait_until(lambda: self.totals()["in_flight"] == 0, "no request is in flight")
        drops = assert_accounted(self.appliance)["total"]
        assert drops["nic_missed"] == drops_before["nic_missed"]
        assert counts["from_client"].get("missed", 0) == counts["from_server"].get("missed", 0) == 0
        # AF_PACKET's fan-out reassembles IP packets: it keeps damaged frames that look like parts.
        kept = counts["from_client"]["sent"] - (drops["received"] - drops_before["received"])
        assert 0 <= kept <= counts["from_client"].get("corrupted", 0)
        totals = self.totals()
        assert totals["answered"] - before["answered"] == answered, "each request ran once"
        assert totals["received"] - before["received"] == answered + refused.total(), "each request was taken once"
        sent = {side: counts[side]["datagrams"] for side in counts}
        needed = {side: sum(each.least[side] for each in work) for side in counts}
        record_property("datagrams", {"sent": sent, "needed": needed})
        refused_by = ", ".join(f"{count} {status}" for status, count in refused.items())
        print(f"\n{row:<17}{answered:>4} answered {refused_by:<21}{seconds:>6.1f} s   datagrams sent / needed: "
              f"client {sent['from_client']} / {needed['from_client']}, "
              f"appliance {sent['from_server']} / {needed['from_server']}")  # fmt: skip
        assert not refused
        reasons = {reason: count - drops_before["dropped"].get(reason, 0) for reason, count in drops["dropped"].items()}
        return counts, reasons


@pytest.fixture(scope="module")
def namespaces(scratch):
    made = ImpairedNamespaces(f"{scratch.name.rpartition('-')[2]}x0")
    try:
        made.make()
        yield made
    finally:
        made.remove()


@pytest.fixture(scope="module")
def setting(namespaces, scratch, models):
    appliance = Appliance(namespaces, scratch / "impaired", f"{scratch.name.rpartition('-')[2]}x0")
    # Answers stay cached for as long as a request is repeated, so that none runs twice.
    appliance.sections["data_plane"] = {"mbufs": 16384, "cache_ttl": f"{TIMEOUT_S}s"}
    try:
        appliance.start()
        namespaces.know(appliance.ctl_json("health")["appliance"]["ports"][0]["mac"])
        yield Setting(appliance, namespaces, models)
        assert appliance.stop() == 0
    finally:
        appliance.forget()


@pytest.mark.parametrize("row", ROWS)
def test_small_requests_and_long_answers(setting, row, record_property):
    counts, reasons = setting.run(row, setting.small, record_property)
    if row.startswith("corrupt"):
        assert 0 < reasons["udp_checksum"] <= counts["from_client"]["corrupted"]
    if row.startswith("duplicate"):
        assert 0 < reasons["replayed"] <= counts["from_client"]["duplicated"]


@pytest.mark.parametrize("row", ROWS)
def test_images_of_150_datagrams(setting, row, record_property):
    setting.run(row, setting.images, record_property)
