"""Packets return to their pool once they have been read, before the answer is ready. Tested on the host with
asynchronous batches, and on the simulated GPU."""

import json
import random
import struct
import time
from concurrent.futures import ThreadPoolExecutor

import itif_client
import pytest
from harness import appliance as appliance_module
from harness.clients import GOLDENS, assert_accounted, connect, wait_until

ON_SIMT = appliance_module.BUILD / "tests" / "simt" / "itifd_on_simt"
GENERATION = GOLDENS.parent / "generation"
SIDE = 224


@pytest.fixture(params=["host", "cuda"])
def small_pool(request, new_appliance):
    """Requests may hold about 340 packets, and one tenant at most as many as remain free: one image, not two."""
    made = new_appliance()
    made.sections["device"] = {"kind": request.param, "dtype": "f32", "threads": 1}
    made.sections["batching"] = {"overlap": "on", "max_tokens": 1024, "max_wait": "0s"}
    made.sections["data_plane"] = {"mbufs": 1024, "reassembly_timeout": "2s"}
    made.port |= {"rx_descriptors": 256, "tx_descriptors": 256}
    if request.param == "cuda":
        if not ON_SIMT.exists():
            pytest.skip("built without tests/simt")
        made.program = str(ON_SIMT)
    return made.start()


def image(seed):
    return struct.pack("<4H", SIDE, SIDE, 3, 0) + random.Random(seed).randbytes(SIDE * SIDE * 3)


def is_simulated(appliance):
    return appliance.program == str(ON_SIMT)


def held(appliance):
    return appliance.ctl_json("stats")["datagrams"]["held"]


def count_no_room(appliance):
    dropped = appliance.ctl_json("drops")["total"]["dropped"]
    return sum(count for reason, count in dropped.items() if reason.endswith("_full"))


def send(client, seed):
    message = client.message("image_u8", image(seed), result_kind="logits", flags=itif_client.NO_CACHE)
    client.send_pieces(message, range(len(message.offsets())))
    return message


def test_a_second_image_fits_while_the_first_is_computed(small_pool, namespaces, models):
    """The tenant may hold packets of one image. Each try may miss the time between the release of the first image's
    packets and its answer, so one of several tries must observe it."""
    backbone = "vit-tiny --layers 1 --hidden 48" if is_simulated(small_pool) else "vit-small"
    added = small_pool.add_tenant("animals", models(labels="cat,dog", backbone=backbone))
    with connect(namespaces, added) as one, connect(namespaces, added) as other:
        expected = {seed: one.infer(one.message("image_u8", image(seed), result_kind="logits"), 60).floats()
                    for seed in (1, 2)}
        assert expected[1] != pytest.approx(expected[2], abs=1e-4)
        for _ in range(20):
            no_room = count_no_room(small_pool)
            answered = small_pool.ctl_json("stats")["total"]["answered"]
            first = send(one, 1)
            is_computed_without = False
            while not is_computed_without:
                stats = small_pool.ctl_json("stats")
                if stats["total"]["answered"] > answered:
                    break
                is_computed_without = stats["datagrams"]["contexts"] == 1 and stats["datagrams"]["held"] == 0
            second = send(other, 2)
            for client, message, seed in ((one, first, 1), (other, second, 2)):
                assert client.wait(message, timeout_s=60).floats() == pytest.approx(expected[seed], abs=1e-4)
            if is_computed_without:
                break
        assert is_computed_without, "packets must be freed before the answer"
        assert count_no_room(small_pool) == no_room, "the second image must find room"
    assert_accounted(small_pool)
    wait_until(lambda: held(small_pool) == 0, "no packet is held")


def test_all_images_are_answered_with_a_small_pool(small_pool, namespaces, models):
    """More images at once than the pool has room for. Those without room are sent again, and all are answered."""
    added = small_pool.add_tenant("animals", models(labels="cat,dog", backbone="vit-tiny --layers 2 --hidden 48"),
                                  "--auth", "header")  # the Python client hashes slowly
    with connect(namespaces, added) as client:
        expected = {seed: client.infer(client.message("image_u8", image(seed), result_kind="logits"), 60).floats()
                    for seed in range(4)}
    turns = 1 if is_simulated(small_pool) else 4

    def ask(seed):
        with connect(namespaces, added) as client:
            client.max_silent_tries = 50
            deadline = time.monotonic() + 300  # far beyond what any machine needs
            for _ in range(turns):
                while True:
                    assert time.monotonic() < deadline
                    try:
                        message = client.message("image_u8", image(seed), result_kind="logits",
                                                 flags=itif_client.NO_CACHE)
                        assert client.infer(message, 60).floats() == pytest.approx(expected[seed], abs=1e-4)
                        break
                    except (itif_client.Refused, itif_client.Lost):  # no room for its first piece
                        time.sleep(0.02)

    with ThreadPoolExecutor(len(expected)) as pool:
        for done in [pool.submit(ask, seed) for seed in expected]:
            done.result()
    wait_until(lambda: held(small_pool) == 0, "all packets are freed")
    assert_accounted(small_pool)


def test_generation_does_not_hold_packets(small_pool, namespaces):
    cases = json.loads((GENERATION / "greedy" / "golden.json").read_text(encoding="utf-8"))["cases"]
    added = small_pool.add_tenant("greedy", GENERATION / "greedy")
    with connect(namespaces, added) as client:
        for case in cases[:2]:
            assert client.infer_tokens(case["ids"], timeout_s=60).value() == case["tokens"]
    assert_accounted(small_pool)
    wait_until(lambda: held(small_pool) == 0, "no packet is held")
