"""Generation over the wire, ids to ids and text to text, for several tenants at once."""

import json
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import itif_client
import pytest
from harness.appliance import program
from harness.clients import assert_accounted, connect, wait_until

GOLDENS = Path(__file__).parents[1] / "data" / "generation"
TEXTS = ["The movie was good, and Paris is very big.", "hello world", "a small server in a red house", "x"]


@pytest.fixture(params=["on", "off"], ids=["overlap", "in-turn"])
def f32_appliance(request, new_appliance):
    made = new_appliance()
    # One thread, because a sequence takes hundreds of short steps, and on a busy machine each would
    # wait for a second.
    made.sections["device"] = {"dtype": "f32", "threads": 1}
    made.sections["batching"] |= {"overlap": request.param}
    return made.start()


def cases_of(name):
    return json.loads((GOLDENS / name / "golden.json").read_text(encoding="utf-8"))["cases"]


def alone(directory, lines):
    """The answers of itif-run to the same inputs."""
    run = subprocess.run((program("itif-run"), "--model", str(directory), "--dtype", "f32", "--threads", "1"),
                         input="\n".join(map(json.dumps, lines)), capture_output=True, text=True, check=True,
                         timeout=120)
    return [json.loads(line) for line in run.stdout.splitlines()]


def assert_goldens(appliance, namespaces, names):
    """Asks each model all of its cases, twice at the same time, and returns the tenants' descriptions."""
    added = {name: appliance.add_tenant(name, GOLDENS / name) for name in names}

    def ask(name):
        with connect(namespaces, added[name]) as client:
            for case in cases_of(name):
                answer = client.infer_tokens(case["ids"], timeout_s=30)
                assert (answer.result_kind, answer.rows) == ("tokens", len(case["tokens"]))
                assert answer.value() == case["tokens"], name

    with ThreadPoolExecutor(2 * len(names)) as pool:
        for done in [pool.submit(ask, name) for name in names * 2]:
            done.result()
    assert_accounted(appliance)
    groups = lambda: appliance.ctl_json("group", "list")["groups"]
    wait_until(lambda: all(group["kv_blocks_reserved"] == 0 for group in groups()), "the last step is counted")
    for group in groups():
        assert group["kv_blocks"] > 100 and group["tokens"] > 1000
        assert (group["kv_blocks_used"], group["kv_blocks_reserved"]) == (0, 0), "all KV blocks must be freed"
    return added


def test_tenants_of_one_group_match_transformers(f32_appliance, namespaces):
    names = ["beams-4", "beams-3-smaller", "greedy", "long-never"]
    added = assert_goldens(f32_appliance, namespaces, names)
    assert len({added[name]["tenant"]["group"] for name in names[:3]}) == 1


def test_batches_in_slots_that_are_cleaned_early_match_transformers(new_appliance, namespaces):
    made = new_appliance()
    made.sections["device"] = {"dtype": "f32", "threads": 1}
    made.sections["batching"] |= {"joining": "batches", "cleaning": "slot", "planner": "slotted:row_tokens=256",
                                  "scheduler": "slotted_das", "max_wait": "0s"}
    assert_goldens(made.start(), namespaces, ["beams-4", "beams-3-smaller", "greedy"])


def test_text_to_text_matches_itif_run(f32_appliance, namespaces, models):
    made = [models(seed=seed, head="none", labels="", backbone="marian-tiny") for seed in (1, 2)]
    added = [f32_appliance.add_tenant(f"mt{i}", directory) for i, directory in enumerate(made)]
    assert added[0]["tenant"]["head"] == "generation (4 beams, at most 64 tokens)"
    expected = [alone(directory, [{"text": text} for text in TEXTS]) for directory in made]
    assert expected[0][0]["text"] != expected[1][0]["text"], "seeds make no difference"

    def ask(tenant):
        with connect(namespaces, added[tenant]) as client:
            for text, one in zip(TEXTS, expected[tenant]):
                answer = client.infer_text(text, timeout_s=30)
                assert (answer.result_kind, answer.value()) == ("text", one["text"])
                tokens = client.infer_text(text, result_kind="tokens", timeout_s=30).value()
                assert tokens == client.infer_tokens(one["ids"], timeout_s=30).value()
                assert client.infer_tokens(one["ids"], "text", timeout_s=30).value() == one["text"]

    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(ask, tenant) for tenant in (0, 1, 0, 1)]:
            done.result()

    printed = f32_appliance.ctl("infer", "mt0", TEXTS[1], namespace=namespaces.client).stdout
    assert printed.splitlines()[0] == expected[0][1]["text"]
    ids = ",".join(map(str, expected[1][1]["ids"]))
    printed = f32_appliance.ctl("infer", "mt1", "--ids", ids, namespace=namespaces.client).stdout
    assert len(printed.splitlines()[0].split()) == 63
    assert_accounted(f32_appliance)


def test_each_bad_input_has_a_status(f32_appliance, namespaces):
    added = f32_appliance.add_tenant("ids", GOLDENS / "beams-4")
    with connect(namespaces, added) as client:
        for status, ask in {
            "malformed: a token id is outside": lambda: client.infer_tokens([97, 0]),
            "too_long: more tokens than": lambda: client.infer_tokens([5] * 97),
            "unsupported_kind: the model generates": lambda: client.infer_tokens([5, 0], "hidden"),
            "unsupported_kind: the tenant's model came without": lambda: client.infer_tokens([5, 0], "text"),
        }.items():
            with pytest.raises(itif_client.Refused) as refused:
                ask()
            assert status in f"{refused.value.status}: {refused.value}", refused.value
        assert client.infer_tokens(cases_of("beams-4")[0]["ids"]).value() == cases_of("beams-4")[0]["tokens"]


def test_a_group_that_generates_is_profiled_while_it_serves(f32_appliance, namespaces):
    added = [f32_appliance.add_tenant(f"t{i}", GOLDENS / "beams-4") for i in range(2)]
    name = added[0]["tenant"]["group"]
    shown = f32_appliance.ctl_json("profile", "show", name)
    assert shown["shared_gemms"] and shown["range_rows"][0] == 1
    assert shown["lengths"] == [] and shown["gemm_ns"] == []
    case = cases_of("beams-4")[0]

    def ask(tenant):
        with connect(namespaces, added[tenant]) as client:
            for _ in range(3):
                assert client.infer_tokens(case["ids"], timeout_s=30).value() == case["tokens"]

    with ThreadPoolExecutor(2) as pool:
        asked = [pool.submit(ask, tenant) for tenant in range(2)]
        again = f32_appliance.ctl_json("profile", "run", name)
        for done in asked:
            done.result()
    assert again["range_rows"] == shown["range_rows"]
    printed = f32_appliance.ctl("profile", "show", name).stdout
    assert "It generates" in printed and "A: GEMMs" not in printed
    assert_accounted(f32_appliance)
