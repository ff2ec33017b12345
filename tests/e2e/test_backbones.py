"""All backbones at once, one group each, on the host and on the simulated GPU. Answers must match transformers."""

import base64
import json
import random
import struct
from concurrent.futures import ThreadPoolExecutor

import pytest
from harness import appliance as appliance_module
from harness.clients import GOLDENS, Golden, assert_accounted, connect

F32 = 1e-4
ON_SIMT = appliance_module.BUILD / "tests" / "simt" / "itifd_on_simt"
GENERATION = GOLDENS.parent / "generation"


@pytest.fixture(params=["host", "cuda"])
def f32_appliance(request, new_appliance):
    made = new_appliance()
    made.sections["device"] = {"kind": request.param, "dtype": "f32", "threads": 1}
    made.sections["batching"] = {"max_wait": "0s"}
    if request.param == "cuda":
        if not ON_SIMT.exists():
            pytest.skip("built without tests/simt")
        made.program = str(ON_SIMT)
        made.sections["batching"]["max_tokens"] = 1024  # a simulated GPU is slow
    return made.start()


class Texts:
    """Asks for hidden states or logits of token ids."""

    def __init__(self, name):
        self.golden = Golden(name)
        self.directory = self.golden.directory

    def ask(self, client, rng):
        self.golden.check(client, rng.choice(self.golden.cases), F32)


class Images:
    def __init__(self, name):
        self.directory = GOLDENS / name
        self.golden = json.loads((self.directory / "image_golden.json").read_text(encoding="utf-8"))

    def ask(self, client, rng):
        case = rng.choice(self.golden["cases"])
        image = self.golden["images"][case["image"]]
        payload = struct.pack("<4H", image["height"], image["width"], image["channels"], 0)
        payload += base64.b64decode(image["base64"])
        answer = client.infer(client.message(f"image_{image['payload']}", payload, result_kind=case["kind"]), 60)
        assert answer.floats() == pytest.approx(case["values"], abs=F32)


class Sequences:
    def __init__(self, name):
        self.directory = GENERATION / name
        self.cases = json.loads((self.directory / "golden.json").read_text(encoding="utf-8"))["cases"]

    def ask(self, client, rng):
        case = rng.choice(self.cases)
        assert client.infer_tokens(case["ids"], timeout_s=60).value() == case["tokens"]


def test_all_backbones_side_by_side(f32_appliance, namespaces):
    served = {"bert": Texts("classifier-bf16"), "albert": Texts("albert-classifier-f32"),
              "vit": Images("vit-classifier-f32"), "marian": Sequences("greedy")}
    added = {name: f32_appliance.add_tenant(name, each.directory) for name, each in served.items()}
    assert len({each["tenant"]["group"] for each in added.values()}) == len(served), "one group per backbone"

    def ask(name):
        rng = random.Random(name)
        with connect(namespaces, added[name]) as client:
            for _ in range(6):
                served[name].ask(client, rng)

    with ThreadPoolExecutor(2 * len(served)) as pool:
        for done in [pool.submit(ask, name) for name in list(served) * 2]:
            done.result()
    assert_accounted(f32_appliance)
    assert all(group["requests"] > 0 for group in f32_appliance.ctl_json("group", "list")["groups"])
