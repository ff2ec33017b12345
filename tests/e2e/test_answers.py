"""Answers over the wire match transformers, alone and in mixed batches, for requests sent in any way."""

import json
import random
import re
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import itif_client
import pytest
from harness.appliance import program
from harness.clients import (
    Golden, Recorder, assert_accounted, connect, dropped, repeated, same_floats, wait_dropped, wait_until,
)  # fmt: skip
from harness.namespaces import SERVER_IPV4, SERVER_IPV6

F32 = 1e-4  # tolerance of the kernels in f32


@pytest.fixture
def f32_appliance(new_appliance):
    made = new_appliance()
    made.sections["device"] = {"dtype": "f32"}
    return made.start()


GOLDENS = ["plain-f32", "classifier-bf16", "regression-f32", "sentence-mean-f16", "sentence-cls-bf16",
           "sharded-f16", "tokens-f32", "pretraining-f32"]


def test_every_golden_model_alone_and_all_at_once(f32_appliance, namespaces):
    goldens = {name: Golden(name) for name in GOLDENS}
    added = {name: f32_appliance.add_tenant(name, golden.directory) for name, golden in goldens.items()}
    clients = {name: connect(namespaces, each) for name, each in added.items()}
    for name, golden in goldens.items():
        for case in golden.cases:
            golden.check(clients[name], case, F32)

    def together(name):
        with connect(namespaces, added[name]) as client:
            cases = random.Random(name).sample(goldens[name].cases * 3, len(goldens[name].cases))
            for case in cases:
                goldens[name].check(client, case, F32)

    with ThreadPoolExecutor(len(GOLDENS) * 2) as pool:
        for done in [pool.submit(together, name) for name in GOLDENS * 2]:
            done.result()
    assert_accounted(f32_appliance)


@pytest.mark.parametrize(
    "batching", [{"fidelity": "thesis", "planner": "naive"}, {"overlap": "on", "max_requests": 2}], ids=["thesis", "overlap"]
)
def test_answers_are_the_same_for_each_way_of_batching(new_appliance, namespaces, batching):
    """Once with the thesis's fusion mode and a planner that pads, once with small batches, two of them in flight."""
    appliance = new_appliance()
    appliance.sections["device"] = {"dtype": "f32"}
    appliance.sections["batching"] |= batching
    appliance.start()
    goldens = {name: Golden(name) for name in ("plain-f32", "classifier-bf16", "tokens-f32")}
    added = {name: appliance.add_tenant(name, golden.directory) for name, golden in goldens.items()}

    def together(name):
        with connect(namespaces, added[name]) as client:
            for case in goldens[name].cases:
                goldens[name].check(client, case, F32)

    with ThreadPoolExecutor(2 * len(goldens)) as pool:
        for done in [pool.submit(together, name) for name in list(goldens) * 2]:
            done.result()
    assert_accounted(appliance)


def test_tenants_of_one_backbone_are_not_mixed_up(f32_appliance, namespaces, models):
    """Each tenant's answer in mixed batches equals its answer alone."""
    added = [f32_appliance.add_tenant(f"t{i}", models(seed=i + 1)) for i in range(4)]
    assert len({each["tenant"]["group"] for each in added}) == 1
    inputs = [[101] + [1000 + i * 7 + j for j in range(length)] + [102]
              for i, length in enumerate((1, 3, 9, 30, 62, 126))]
    alone = []
    for each in added:
        with connect(namespaces, each) as client:
            alone.append([client.infer_tokens(ids, "logits", flags=itif_client.NO_CACHE).floats()
                          for ids in inputs])
    assert len({tuple(answers[0]) for answers in alone}) == 4, "seeds make no difference"

    def crowd(tenant):
        with connect(namespaces, added[tenant]) as client:
            for turn in range(20):
                case = (turn * 5 + tenant) % len(inputs)
                got = client.infer_tokens(inputs[case], "logits").floats()
                assert got == pytest.approx(alone[tenant][case], abs=1e-4)

    with ThreadPoolExecutor(8) as pool:
        for done in [pool.submit(crowd, i % 4) for i in range(8)]:
            done.result()
    groups = f32_appliance.ctl_json("group", "list")["groups"]
    assert len(groups) == 1 and groups[0]["slots_used"] == 4
    assert groups[0]["mean_batch_tenants"] > 1, "batches must mix tenants"
    assert_accounted(f32_appliance)


def test_answers_equal_those_of_itif_run(f32_appliance, namespaces, models):
    """Texts and token ids of four tenants at once, against itif-run with one model and one line at a time."""
    lines = [{"ids": [101, 2000 + i, *range(3000, 3000 + i * 7), 102]} for i in range(6)]
    lines += [{"text": text} for text in ("good morning", "A naïve café, 北京!", "unaffable " * 20)]
    directories = [models(seed=i + 1) for i in range(4)]
    added = [f32_appliance.add_tenant(f"t{i}", each) for i, each in enumerate(directories)]
    expected = []
    for each in directories:
        output = subprocess.run(
            (program("itif-run"), "--model", str(each), "--dtype", "f32", "--kind", "logits"),
            input="".join(json.dumps(line) + "\n" for line in lines), capture_output=True, text=True,
            timeout=60, check=True).stdout
        expected.append([json.loads(line)["values"] for line in output.splitlines()])

    def compare(tenant):
        with connect(namespaces, added[tenant]) as client:
            for line, values in zip(lines, expected[tenant], strict=True):
                answer = (client.infer_tokens(line["ids"], "logits") if "ids" in line
                          else client.infer_text(line["text"], result_kind="logits"))
                assert answer.floats() == pytest.approx(values, abs=F32), line

    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(compare, i % 4) for i in range(8)]:
            done.result()


@pytest.mark.parametrize("address", [SERVER_IPV4, SERVER_IPV6])
@pytest.mark.parametrize("auth", ["header", "full", "sealed"])
def test_pieces_in_any_order_and_number(appliance, namespaces, models, auth, address):
    added = appliance.add_tenant("pieces", models(), "--auth", auth)
    rng = random.Random(7)
    ids = [101] + [rng.randrange(1000, 20000) for _ in range(300)] + [102]
    with connect(namespaces, added, auth=auth, address=address, fragment_bytes=64) as client:
        expected = client.infer_tokens(ids, "logits").payload
        count = len(client.tokens(ids).offsets())
        assert count > 8
        orders = [list(reversed(range(count))), [*range(count), *range(count)],
                  [0, 0, 0, *range(count)], [count - 1, *range(count)]]
        for _ in range(6):
            order = list(range(count)) + [rng.randrange(count) for _ in range(count)]
            rng.shuffle(order)
            orders.append(order)
        for order in orders:
            message = client.tokens(ids, result_kind="logits")
            client.send_pieces(message, order)
            got = client.wait(message, retransmit=False)
            assert got.floats() == pytest.approx(itif_client.Answer(payload=expected).floats(), abs=2e-2)
    assert_accounted(appliance)


def test_missing_pieces_are_asked_for(appliance, namespaces, models):
    added = appliance.add_tenant("gaps", models())
    with connect(namespaces, added, fragment_bytes=64) as client:
        message = client.tokens([101] + list(range(1000, 1200)) + [102], result_kind="logits")
        client.send_pieces(message, [0, 2, 4])
        answer = client.wait(message)
        assert answer.resends_served >= 1


def test_a_large_response_survives_loss_on_the_way_back(appliance, namespaces, models):
    """Hidden states of 400 tokens take many pieces; some are dropped and requested again."""
    added = appliance.add_tenant("large", models())
    ids = [101] + list(range(1000, 1398)) + [102]
    with connect(namespaces, added) as client:
        whole = client.infer_tokens(ids, "hidden")
        assert whole.pieces > 50 and whole.rows == 400
        receive, rng = client.receive_raw, random.Random(3)

        def lossy(timeout_s):
            data = receive(timeout_s)
            while data is not None and len(data) > 500 and rng.random() < 0.3:
                data = receive(timeout_s)
            return data

        client.receive_raw = lossy
        again = client.infer_tokens(ids, "hidden")
        assert again.resends_asked >= 1 and len(again.payload) == len(whole.payload)


def test_a_repeated_request_is_answered_from_the_cache(appliance, namespaces, models):
    added = appliance.add_tenant("repeat", models())
    with connect(namespaces, added) as client:
        message = client.tokens([101, 2000, 102], result_kind="logits")
        first = client.infer(message)
        requests = appliance.ctl_json("stats")["total"]["received"]
        for _ in range(3):
            assert client.infer(message).payload == first.payload
        assert appliance.ctl_json("stats")["total"]["received"] == requests
        wait_until(lambda: repeated(appliance, "answered_from_cache") >= 3, "cache hits are counted")


def test_repeats_are_counted_apart_from_drops(appliance, namespaces, models):
    """A client that repeated its requests once read that 86 % of its datagrams were dropped."""
    added = appliance.add_tenant("impatient", models())
    with connect(namespaces, added, rto_s=5) as client:
        for turn in range(20):
            message = client.tokens([101, 2000 + turn, 102], result_kind="logits")
            first = client.infer(message)
            for _ in range(3):
                client.send_pieces(message, flags=message.header.flags | itif_client.RETRY)
                assert client.wait(message, retransmit=False).payload == first.payload
    drops = assert_accounted(appliance)
    row, = drops["tenants"]
    assert sum(row["repeated"].values()) == 60 and row["dropped"] == {}, row
    assert drops["total"]["repeated"] == row["repeated"], drops["total"]
    tenant, = appliance.ctl_json("stats")["tenants"]
    assert (tenant["answered"], tenant["repeated"], tenant["dropped"]) == (20, 60, 0), tenant
    assert appliance.ctl_json("stats")["datagrams"]["repeated"] == 60
    printed = appliance.ctl("drops").stdout
    lines = [re.split(r" {2,}", line) for line in printed.splitlines()]
    columns, = (line for line in lines if line[0] == "TENANT")
    cells, = (dict(zip(columns, line)) for line in lines if line[0] == "impatient")
    assert (cells["REPEATED"], cells["DROPPED"]) == ("60", "0"), printed
    dropped_section, _, repeats_section = printed.partition("\nRepeats: not lost\n")
    assert "answered_from_cache: " in repeats_section and "answered_from_cache" not in dropped_section, printed


def test_text_is_tokenised_and_labels_come_back(appliance, namespaces, models):
    added = appliance.add_tenant("text", models(labels="spam,ham"))
    with connect(namespaces, added) as client:
        classes = client.infer_text("A fine day, naïve café!", result_kind="classes").value()
        assert sorted(entry.name for entry in classes) == ["ham", "spam"]
        assert classes[0].probability >= classes[1].probability
        assert sum(entry.probability for entry in classes) == pytest.approx(1, abs=1e-3)
    line = appliance.ctl("infer", "text", "a fine day", namespace=namespaces.client).stdout
    assert "spam" in line or "ham" in line


@pytest.mark.parametrize("family", ["roberta", "albert"])
def test_a_text_and_its_ids_get_the_same_answer(appliance, namespaces, models, scratch, family):
    """For families with other tokenizers than BERT's: byte-level BPE and SentencePiece."""
    directory = scratch / f"{family}-text"
    shutil.copytree(models(backbone=f"{family}-tiny"), directory)
    (directory / "vocab.txt").unlink()
    tokenizer = Path(__file__).parents[1] / "data" / f"{family}_tokenizer"
    for file in tokenizer.iterdir():
        shutil.copy(file, directory)
    added = appliance.add_tenant(family, directory)
    cases = json.loads((tokenizer / "golden.json").read_text(encoding="utf-8"))["texts"]
    cases = [(text, ids) for text, ids in cases if text.strip() and 3 < len(ids) < 60][::20]
    assert len(cases) >= 10
    with connect(namespaces, added) as client:
        for text, ids in cases:
            assert same_floats(client.infer_text(text, result_kind="logits").payload,
                               client.infer_tokens(ids, "logits").payload)


def test_every_authentication_and_stronger_ones(appliance, namespaces, models):
    for least, auth in enumerate(itif_client.AUTHS):
        added = appliance.add_tenant(f"auth-{auth}", models(), "--auth", auth)
        for stronger in itif_client.AUTHS[least:]:
            with connect(namespaces, added, auth=stronger) as client:
                assert client.infer_tokens([101, 2000, 102], "logits").payload


def test_nothing_readable_is_sent_for_a_sealed_tenant(appliance, namespaces, models):
    added = appliance.add_tenant("sealed", models(labels="spam,ham"), "--auth", "sealed")
    text = "a secret that nobody may read on the way, of more than one piece " * 3
    with connect(namespaces, added, make=Recorder, fragment_bytes=64) as client:
        classes = client.infer_text(text, result_kind="classes").value()
        assert sorted(entry.name for entry in classes) == ["ham", "spam"]
        everything = b"".join(client.sent + client.received)
        assert b"secret" not in everything and b"spam" not in everything
        assert len(client.sent) > 3
    line = appliance.ctl("infer", "sealed", "a fine day", namespace=namespaces.client).stdout
    assert "spam" in line


def test_requests_need_an_address_token(appliance, namespaces, models):
    added = appliance.add_tenant("token", models())
    with connect(namespaces, added, fragment_bytes=64, rto_s=5) as client:
        for token in (0, 0x1234_5678_9ABC_DEF0):
            before = dropped(appliance, "token_required")
            message = client.tokens(list(range(1000, 1100)), result_kind="logits")
            client.send_pieces(message, token=token)
            with pytest.raises(itif_client.Refused, match="token_required") as refused:
                client.wait(message, retransmit=False, timeout_s=2)
            assert refused.value.token not in (0, token)
            assert client.receive_for(message.header.request_id, 0.2) is None, "one answer for all pieces"
            wait_dropped(appliance, "token_required", before + len(message.offsets()))
        # The token of the refusal is good.
        client.token, client.token_renew_s = refused.value.token, float("inf")
        message = client.tokens([101, 2000, 102], result_kind="logits")
        assert client.infer(message).tries == 1
        client.token = 5  # an old one: the client takes the new one from the refusal
        assert client.infer_tokens([101, 2001, 102], "logits").payload and client.token != 5
    assert_accounted(appliance)


def test_a_datagram_counts_once(appliance, namespaces, models):
    """Copies of requests, made by the network or an attacker, run nothing and get no answer."""
    added = appliance.add_tenant("copied", models())
    with connect(namespaces, added, make=Recorder, rto_s=5) as client:
        client.infer_tokens([101, 2000, 102], "logits", flags=itif_client.NO_CACHE)
        answered = appliance.ctl_json("stats")["total"]["answered"]
        for _ in range(3):
            client.send_raw(client.sent[-1])
        wait_dropped(appliance, "replayed", 3)
        assert client.receive_raw(0.2) is None
        assert appliance.ctl_json("stats")["total"]["answered"] == answered
        assert client.infer_tokens([101, 2001, 102], "logits").payload
    assert_accounted(appliance)
