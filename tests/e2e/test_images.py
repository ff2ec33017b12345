"""Images over the wire, a hundred datagrams each, in any order. Answers must equal those of the model alone."""

import json
import random
import struct
import subprocess
import zlib
from concurrent.futures import ThreadPoolExecutor

import itif_client
import pytest
from harness.appliance import program
from harness.clients import assert_accounted, connect
from harness.namespaces import SERVER_IPV4

SIDE = 224
NO_CACHE = itif_client.NO_CACHE


def image(seed, height=SIDE, width=SIDE, channels=3, missing=0):
    pixels = random.Random(seed).randbytes(height * width * channels - missing)
    return struct.pack("<4H", height, width, channels, 0) + pixels


@pytest.fixture
def animals(models):
    """animals(seed): a small image model of two layers."""
    return lambda seed=1: models(seed=seed, labels="cat,dog,heron", backbone="vit-tiny --layers 2 --hidden 48")


def alone(directory, payloads, scratch, kind="logits"):
    """The answers of itif-run to each payload, one at a time."""
    lines = []
    for number, payload in enumerate(payloads):
        path = scratch / f"image{number}.bin"
        path.write_bytes(payload)
        lines.append(json.dumps({"image_u8": str(path), "kind": kind}))
    output = subprocess.run((program("itif-run"), "--model", str(directory), "--dtype", "f32"),
                            input="\n".join(lines) + "\n", capture_output=True, text=True, timeout=120,
                            check=True).stdout
    return [json.loads(line)["values"] for line in output.splitlines()]


def test_images_of_several_tenants_in_shuffled_datagrams(new_appliance, namespaces, animals, scratch):
    appliance = new_appliance()
    appliance.sections["device"] = {"dtype": "f32"}
    appliance.sections["data_plane"]["reassembly_timeout"] = "2s"
    appliance.start()
    directories = [animals(seed) for seed in (1, 2, 3)]
    added = [appliance.add_tenant(f"t{i}", each) for i, each in enumerate(directories)]
    assert len({each["tenant"]["group"] for each in added}) == 1
    # The server resizes the last one.
    payloads = [image(1), image(2), image(3, height=200, width=301)]
    assert len(payloads[0]) == 150_536
    expected = [alone(each, payloads, scratch) for each in directories]
    assert max(abs(a - b) for a, b in zip(expected[0][0], expected[1][0])) > 1e-3, "seeds make no difference"

    def ask(turn):
        tenant, rng = turn % len(added), random.Random(turn)
        with connect(namespaces, added[tenant]) as client:
            for number in rng.sample(range(len(payloads)), len(payloads)):
                message = client.message("image_u8", payloads[number], result_kind="logits", flags=NO_CACHE)
                count = len(message.offsets())
                assert count >= 100
                order = list(range(count)) + rng.sample(range(count), 20)
                rng.shuffle(order)
                client.send_pieces(message, order)
                got = client.wait(message, timeout_s=20).floats()
                assert got == pytest.approx(expected[tenant][number], abs=1e-4), (tenant, number)

    with ThreadPoolExecutor(6) as pool:
        for done in [pool.submit(ask, turn) for turn in range(6)]:
            done.result()
    # f32 pixels of the model's size: four times the bytes.
    with connect(namespaces, added[0]) as client:
        values = [(byte / 255 - 0.5) / 0.5 for byte in payloads[0][8:]]
        payload = payloads[0][:8] + struct.pack(f"<{len(values)}f", *values)
        answer = client.infer(client.message("image_f32", payload, result_kind="logits"), 20)
        assert answer.floats() == pytest.approx(expected[0][0], abs=1e-4)
    assert_accounted(appliance)


def test_each_wrong_image_gets_a_status(appliance, namespaces, animals, models):
    of_images = appliance.add_tenant("animals", animals())
    of_text = appliance.add_tenant("text", models())
    assert of_images["tenant"]["group"] != of_text["tenant"]["group"]
    f32 = struct.pack("<4H", 100, 100, 3, 0) + bytes(100 * 100 * 3 * 4)
    cases = [
        ("image_u8", image(1, missing=1), "malformed", "not as long as"),
        ("image_u8", image(1, height=0) + bytes(100), "malformed", "none of them 0"),
        ("image_u8", image(1, channels=1), "unsupported_kind", "channels"),
        ("image_u8", image(1, height=9000, width=2), "too_long", "8192"),
        ("image_f32", f32, "unsupported_kind", "not resized"),
        ("text", b"a heron", "unsupported_kind", "does not take this kind"),
        ("tokens_u16", bytes(8), "unsupported_kind", "does not take this kind"),
        ("image_u8", bytes(8), "malformed", "no payload of this kind has this length"),
    ]
    with connect(namespaces, of_images) as client:
        for kind, payload, status, detail in cases:
            with pytest.raises(itif_client.Refused) as refused:
                client.infer(client.message(kind, payload))
            assert refused.value.status == status, (kind, detail)
            assert detail in str(refused.value), (kind, detail)
        # The last piece never arrives, although the server asks for it.
        client._serve_resend = lambda *_: 0
        message = client.message("image_u8", image(1))
        client.send_pieces(message, range(len(message.offsets()) - 1))
        with pytest.raises(itif_client.Refused) as refused:
            client.wait(message, retransmit=False)
        assert refused.value.status == "deadline_reassembly"
        del client._serve_resend
        assert client.infer(client.message("image_u8", image(4)), 20).result_kind == "classes"
    with connect(namespaces, of_text) as client:
        with pytest.raises(itif_client.Refused) as refused:
            client.infer(client.message("image_u8", image(1, height=4, width=4)))
        assert refused.value.status == "unsupported_kind"
    assert_accounted(appliance)


def png_of(payload):
    height, width = struct.unpack("<2H", payload[:4])
    rows = b"".join(b"\0" + payload[8 + y * width * 3:8 + (y + 1) * width * 3] for y in range(height))

    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">2I5B", width, height, 8, 2, 0, 0, 0)) +
            chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def test_itifctl_infers_a_picture(appliance, namespaces, animals, scratch):
    added = appliance.add_tenant("animals", animals())
    payload = image(7, height=120, width=90)
    picture = scratch / "picture.png"
    picture.write_bytes(png_of(payload))
    line = appliance.ctl("infer", "animals", "--image", str(picture), namespace=namespaces.client).stdout
    assert "heron" in line and "answered by version 1 in" in line
    with connect(namespaces, added) as client:
        best = client.infer(client.message("image_u8", payload), 20).value()[0]
    assert line.splitlines()[1].startswith(best.name), line


def test_loadgen_sends_images(appliance, namespaces, animals, scratch):
    added = appliance.ctl("--json", "tenant", "add", "animals", "--model", str(animals())).stdout
    tenants = scratch / "animals.json"
    tenants.write_text(added)
    done = subprocess.run(
        ("ip", "netns", "exec", namespaces.client, program("itif-loadgen"), SERVER_IPV4, "--tenants", str(tenants),
         "--payload", "image_u8:224x224x3", "--concurrency", "4", "--requests", "40", "--duration", "30s", "--json",
         "-"), capture_output=True, text=True, timeout=90, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert_accounted(appliance)
