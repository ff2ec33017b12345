"""Versions of a tenant's model: swaps under load, canaries, rollback, failed loads, kills, removal."""

import contextlib
import json
import random
import shutil
import subprocess
import threading
import time

import itif_client
import pytest
from harness.appliance import CtlError, program
from harness.clients import Traffic, assert_accounted, connect, wait_until
from test_lifecycle import wait_admitted
from test_tenants import bystanders

IDS = [101, 2000, 2001, 2002, 102]
FAR = 0.05  # answers of different models differ by more, those of one model by less


def versions(appliance, name):
    return appliance.ctl_json("tenant", "versions", name)["versions"]


def states(appliance, name):
    return [(each["version"], each["state"]) for each in versions(appliance, name)]


def ask(client, ids=None, kind="hidden", **options):
    return client.infer_tokens(ids or IDS, kind, flags=itif_client.MODEL_VERSION, **options)


def distance(a, b):
    assert len(a) == len(b)
    return max(abs(x - y) for x, y in zip(a, b))


@pytest.fixture
def expected(namespaces, models, new_appliance):
    """expected(seed, ids): the hidden states that the model of a seed gives, from an appliance of its own."""
    answers = {}

    def compute(seeds, ids):
        appliance = new_appliance().start()
        for seed in seeds:
            added = appliance.add_tenant(f"seed{seed}", models(seed=seed))
            with connect(namespaces, added) as client:
                answers[seed] = client.infer_tokens(ids, "hidden", timeout_s=30).floats()
        assert appliance.stop() == 0
        for a in seeds:
            for b in seeds:
                assert a == b or distance(answers[a], answers[b]) > FAR
        return answers

    return compute


class Asker(threading.Thread):
    """Sends requests one after the other; records each answer with its version and its time."""

    def __init__(self, client, ids):
        super().__init__(daemon=True)
        self.client, self.ids = client, ids
        self.client.max_silent_tries = 8
        self.answers, self.failures = [], []
        self.ends = threading.Event()

    def run(self):
        while not self.ends.is_set():
            sent = time.monotonic()
            try:
                answer = ask(self.client, self.ids, timeout_s=30)
            except (itif_client.Lost, itif_client.Refused) as failure:
                self.failures.append(repr(failure))
                continue
            self.answers.append((sent, answer.model_version, answer.floats()))


@contextlib.contextmanager
def askers(namespaces, added, ids, count):
    threads = [Asker(connect(namespaces, added), ids) for _ in range(count)]
    for each in threads:
        each.start()
    try:
        yield threads
    finally:
        for each in threads:
            each.ends.set()
        for each in threads:
            each.join(40)


def wait_for_answers(threads, more):
    goals = [len(each.answers) + more for each in threads]
    wait_until(lambda: all(len(each.answers) >= goal for each, goal in zip(threads, goals)), "answers", 60)


def test_a_response_says_its_version_only_if_asked(appliance, namespaces, models):
    added = appliance.add_tenant("asked", models())
    with connect(namespaces, added) as client:
        assert client.infer_tokens(IDS, "logits").model_version is None
        assert ask(client, kind="logits").model_version == 1
        appliance.ctl("tenant", "update", "asked", "--reload")
        assert ask(client, kind="logits").model_version == 2
        message = client.tokens(IDS, result_kind="logits", flags=itif_client.MODEL_VERSION)
        assert client.infer(message).model_version == 2
        appliance.ctl("tenant", "update", "asked", "--reload")
        client.send_raw(message.piece(0, flags=itif_client.MODEL_VERSION | itif_client.RETRY))
        assert client.wait(message).model_version == 2, "a repeat gets the cached answer"
    shown = appliance.ctl("infer", "asked", "--ids", "101,2000,102", "--key", added["key"], check=False,
                          namespace=namespaces.client).stdout
    assert "by version 3" in shown, shown


def test_each_request_under_a_swap_is_answered_by_one_version(new_appliance, expected, namespaces, models):
    ids = [101] + [2000 + i for i in range(62)] + [102]  # 64 rows of 128: 24 pieces
    seeds = (1, 2, 3)
    answer_of = expected(seeds, ids)
    appliance = new_appliance().start()
    added = appliance.add_tenant("swapped", models(seed=1))
    installed = {1: 1}  # seed by version
    swaps = []          # (version, time before the command, time after)
    with askers(namespaces, added, ids, 4) as threads:
        wait_for_answers(threads, 3)
        for turn in range(8):
            seed = seeds[(turn + 1) % 3]
            before = time.monotonic()
            appliance.ctl("tenant", "update", "swapped", "--model", str(models(seed=seed)))
            swaps.append((turn + 2, before, time.monotonic()))
            installed[turn + 2] = seed
            wait_for_answers(threads, 3)
        appliance.ctl("tenant", "rollback", "swapped")
        wait_for_answers(threads, 3)
    seen = set()
    for each in threads:
        assert not each.failures, each.failures
        for sent, version, values in each.answers:
            seen.add(version)
            assert distance(values, answer_of[installed[version]]) < FAR, f"not an answer of version {version}"
            for number, before, after in swaps:
                if sent > after and version != 8:
                    assert version >= number, "a request after the swap was answered by the old version"
                if version == number:
                    assert sent > before - 30
    assert seen == set(installed), seen
    assert all(each.answers[-1][1] == 8 for each in threads), "the rollback's version answers last"
    assert states(appliance, "swapped")[:3] == [(9, "rolled_back"), (8, "active"), (7, "previous")]
    assert_accounted(appliance)


def test_a_canary_answers_its_part_until_it_is_promoted(appliance, namespaces, models):
    added = appliance.add_tenant("tried", models(seed=1))
    with bystanders(appliance, namespaces, models, count=1), connect(namespaces, added, rto_s=5) as client:
        active = client.infer_tokens(IDS, "hidden").floats()
        shown = appliance.ctl_json("tenant", "update", "tried", "--model", str(models(seed=2)), "--canary", "30%")
        assert (shown["tenant"]["version"], shown["tenant"]["canary_version"]) == (1, 2)
        counts = {1: 0, 2: 0}
        for _ in range(200):
            answer = ask(client)
            counts[answer.model_version] += 1
            assert (distance(answer.floats(), active) < FAR) == (answer.model_version == 1)
        assert 30 <= counts[2] <= 95, counts
        listed = {each["version"]: each for each in versions(appliance, "tried")}
        assert (listed[2]["percent"], listed[1]["percent"]) == (30, 70)
        assert listed[2]["requests"] == listed[2]["answered"] == counts[2], listed
        assert listed[1]["requests"] == counts[1] + 1
        assert 0 < listed[2]["p50_ns"] <= listed[2]["p99_ns"] < 30e9
        with pytest.raises(itif_client.Refused, match="too_long"):
            client.infer_tokens([101] * 5000, "hidden")
        assert sum(each["errors"] for each in versions(appliance, "tried")) == 1
        with pytest.raises(CtlError, match="canary"):
            appliance.ctl("tenant", "update", "tried", "--model", str(models(seed=3)))
        appliance.ctl("tenant", "update", "tried", "--canary", "99%")
        assert [ask(client).model_version for _ in range(40)].count(2) >= 30
        appliance.ctl("tenant", "promote", "tried")
        assert {ask(client).model_version for _ in range(40)} == {2}
        assert states(appliance, "tried") == [(2, "active"), (1, "previous")]
        appliance.ctl("tenant", "rollback", "tried")
        answer = ask(client)
        assert answer.model_version == 1 and distance(answer.floats(), active) < FAR
        table = appliance.ctl("tenant", "versions", "tried").stdout
        assert "rolled_back" in table and "P99" in table, table


def test_a_canary_is_rolled_back_and_survives_a_restart(appliance, namespaces, models):
    added = appliance.add_tenant("tried", models(seed=1))
    appliance.ctl("tenant", "update", "tried", "--model", str(models(seed=2)), "--canary", "50%")
    appliance.kill()
    appliance.start()
    wait_admitted(appliance, 1)
    with connect(namespaces, added) as client:
        assert {ask(client).model_version for _ in range(60)} == {1, 2}
        appliance.ctl("tenant", "rollback", "tried")
        assert {ask(client).model_version for _ in range(30)} == {1}
    assert states(appliance, "tried") == [(2, "rolled_back"), (1, "active")]


def broken_copies(source, directory):
    """Directories of damaged models, with what the error must name."""
    weights = (source / "model.safetensors").read_bytes()
    config = (source / "config.json").read_bytes()
    for name, file, data, names in (
            ("truncated", "model.safetensors", weights[: len(weights) // 2], "model.safetensors"),
            ("hostile", "model.safetensors", b"\xff" * 8 + weights[8:], "model.safetensors"),
            ("not-finite", "model.safetensors", weights[:-4096] + b"\xff" * 4096, "finite"),
            ("no-json", "config.json", b"{", "config.json"),
            ("other-sizes", "config.json", config.replace(b'"hidden_size": 128', b'"hidden_size": 96'), "expected"),
            ("no-weights", "model.safetensors", None, "model.safetensors")):
        copy = directory / name
        shutil.copytree(source, copy)
        if data is None:
            (copy / file).unlink()
        else:
            (copy / file).write_bytes(data)
        yield copy, names
    yield directory / "missing", "missing"


def test_a_failed_load_changes_nothing(appliance, namespaces, models, tmp_path):
    added = appliance.add_tenant("kept", models(seed=1))
    appliance.ctl("tenant", "update", "kept", "--model", str(models(seed=2)))
    before = appliance.ctl_json("tenant", "show", "kept")
    listed = states(appliance, "kept")
    with connect(namespaces, added) as client, Traffic(connect(namespaces, added)) as traffic:
        active = client.infer_tokens(IDS, "hidden").floats()
        for directory, names in broken_copies(models(seed=3), tmp_path):
            for canary in ((), ("--canary", "5%")):
                with pytest.raises(CtlError, match=names):
                    appliance.ctl("tenant", "update", "kept", "--model", str(directory), *canary)
                assert appliance.ctl_json("tenant", "show", "kept") == before
                answer = ask(client)
                assert answer.model_version == 2 and distance(answer.floats(), active) < FAR
        traffic.wait_for(3)
        assert not traffic.losses and not traffic.refusals
        assert states(appliance, "kept") == listed
        appliance.kill()
        appliance.start()
        wait_admitted(appliance, 1)
        assert ask(client).model_version == 2


def test_a_version_without_memory_is_refused(new_appliance, namespaces, models):
    appliance = new_appliance()
    appliance.sections["device"]["memory"] = 120 << 20
    appliance.start()
    added = appliance.add_tenant("small", models(seed=1))
    large = models(seed=1, backbone="bert-base")
    with connect(namespaces, added) as client:
        with pytest.raises(CtlError, match="memory"):
            appliance.ctl("tenant", "update", "small", "--model", str(large))
        assert ask(client).model_version == 1
        assert len(appliance.ctl_json("group", "list")["groups"]) == 1
        assert states(appliance, "small") == [(1, "active")]


def test_memory_that_a_load_takes_for_a_while_counts(new_appliance, models):
    appliance = new_appliance().start()
    appliance.add_tenant("first", models(seed=1))
    taken = appliance.ctl_json("group", "list")["groups"][0]
    appliance.ctl("tenant", "remove", "first")
    assert appliance.stop() == 0
    needed = taken["weight_bytes"] + taken["workspace_bytes"]
    table = 30522 * 128 * 4  # the largest tensor of the file
    for spare, fits in ((table // 2, False), (2 * table, True)):
        appliance.sections["device"]["memory"] = needed + spare
        appliance.start()
        if fits:
            appliance.add_tenant("first", models(seed=1))
        else:
            with pytest.raises(CtlError, match="only while it loads"):
                appliance.add_tenant("first", models(seed=1))
            assert appliance.ctl_json("group", "list")["groups"] == []
        assert appliance.stop() == 0


@pytest.mark.parametrize("seed", range(3))
def test_a_kill_during_updates_leaves_a_consistent_registry(new_appliance, namespaces, models, seed):
    appliance = new_appliance().start()
    added = appliance.add_tenant("killed", models(seed=1))
    # Active version and canary after each change. The last of `planned` is pending at the kill.
    planned, acknowledged = [(1, None)], [(1, None)]
    rng = random.Random(seed)
    until_kill_s = 0.2 + rng.random()

    def succeeds(expected, *command):
        planned.append(expected)
        result = appliance.ctl("--json", "tenant", *command, check=False, timeout=20)
        if result.returncode != 0:
            return False
        tenant = json.loads(result.stdout)["tenant"]
        acknowledged.append((tenant["version"], tenant.get("canary_version")))
        return True

    def change():
        for newest in range(2, 1000):
            active, _ = acknowledged[-1]
            update = ("update", "killed", "--model", str(models(seed=1 + newest % 2)))
            if newest % 3 != 1:
                if not succeeds((newest, None), *update):
                    return
                continue
            end, left = rng.choice((("promote", newest), ("rollback", active)))
            if not (succeeds((active, newest), *update, "--canary", "10%") and succeeds((left, None), end, "killed")):
                return

    thread = threading.Thread(target=change)
    thread.start()
    wait_until(lambda: len(acknowledged) > 1, "a change", 30)
    time.sleep(until_kill_s)
    assert thread.is_alive(), (planned[-1], "failed before the kill")
    appliance.kill()
    thread.join(30)
    assert acknowledged == planned[: len(acknowledged)]
    appliance.start()
    wait_admitted(appliance, 1)
    listed = versions(appliance, "killed")
    numbers = [each["version"] for each in listed]
    assert numbers == sorted(set(numbers), reverse=True)
    by_state = [each["state"] for each in listed]
    assert by_state.count("active") == 1 and by_state.count("previous") <= 1 and by_state.count("canary") <= 1
    active, canary = (next((each["version"] for each in listed if each["state"] == state), None)
                      for state in ("active", "canary"))
    assert (active, canary) in planned[len(acknowledged) - 1 :], "an acknowledged change is lost"
    with connect(namespaces, added) as client:
        assert ask(client).model_version in (active, canary)
        appliance.ctl("tenant", "update", "killed", "--canary", "50%", check=False)
        if "canary" in by_state:
            appliance.ctl("tenant", "rollback", "killed")
        appliance.ctl("tenant", "update", "killed", "--reload")
        assert ask(client).model_version == max(numbers) + 1


def test_removal_reports_its_last_requests(new_appliance, namespaces, models):
    appliance = new_appliance()
    appliance.sections["batching"]["max_wait"] = "0s"
    appliance.start()
    added = appliance.add_tenant("gone", models(backbone="bert-small"))
    stays = appliance.add_tenant("stays", models(seed=2, backbone="bert-small"))
    long = [101] + [2000] * 480 + [102]
    with connect(namespaces, added) as client, connect(namespaces, stays) as other:
        client.infer_tokens(IDS, "logits")
        sent = 0
        while appliance.ctl_json("stats")["total"]["in_flight"] < 40:
            for _ in range(40):
                client.send_pieces(client.tokens(long, result_kind="logits"))
                sent += 1
        removed = appliance.ctl_json("tenant", "remove", "gone", "--within", "1ms")
        assert removed["in_flight"] > 0, removed
        with pytest.raises(itif_client.Lost):  # an unknown tenant gets no answer
            client.infer_tokens(IDS, "logits")
        assert other.infer_tokens(IDS, "logits", timeout_s=60).payload
        # They are still answered; then the memory is freed.
        wait_until(lambda: appliance.ctl_json("group", "list")["groups"][0]["slots_used"] == 1, "its slot", 60)
        appliance.ctl("tenant", "remove", "stays")
        assert appliance.ctl_json("group", "list")["groups"] == []

        again = appliance.add_tenant("waits", models(backbone="bert-small"))
        with connect(namespaces, again) as waiting:
            waiting.infer_tokens(IDS, "logits")
            for _ in range(10):
                waiting.send_pieces(waiting.tokens(long, result_kind="logits"))
            removed = appliance.ctl_json("tenant", "remove", "waits", "--within", "60s")
            assert removed["in_flight"] == 0 and removed["answered"] + removed["refused"] <= 10, removed
    assert_accounted(appliance)


def test_itif_run_writes_samples(appliance, namespaces, models, tmp_path):
    directory = tmp_path / "model"
    shutil.copytree(models(seed=2), directory)
    lines = [{"text": "a fine day", "pair": None}, {"ids": IDS, "kind": "logits"}, {"ids": IDS, "kind": "pooled"}]
    made = subprocess.run((program("itif-run"), "--model", str(directory), "--samples"), capture_output=True,
                          text=True, check=True, input="".join(json.dumps(line) + "\n" for line in lines)).stdout
    assert len(made.splitlines()) == 3
    samples = directory / "itif-samples.jsonl"
    samples.write_text(made, encoding="utf-8")
    added = appliance.add_tenant("written", directory)
    with connect(namespaces, added) as client:
        assert ask(client).model_version == 1
    samples.write_text(made.replace('"label":"', '"label":"x'), encoding="utf-8")
    with pytest.raises(CtlError, match="jsonl:1: the best class is"):
        appliance.ctl("tenant", "update", "written", "--reload")
    refused = subprocess.run((program("itif-run"), "--model", str(directory), "--samples"), capture_output=True,
                             text=True, check=False, input='{"ids": [99999]}\n')
    assert refused.returncode == 1 and "is no sample" in refused.stderr, refused


def with_samples(source, directory, *lines):
    shutil.copytree(source, directory)
    text = "".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines)
    (directory / "itif-samples.jsonl").write_text(text, encoding="utf-8")
    return directory


def test_a_new_version_must_answer_its_samples(appliance, namespaces, models, tmp_path):
    added = appliance.add_tenant("checked", models(seed=1))
    candidate = appliance.add_tenant("candidate", models(seed=2))
    with connect(namespaces, candidate) as client:
        logits = client.infer_tokens(IDS, "logits").floats()
        hidden = client.infer_tokens(IDS, "hidden").value()
        text_logits = client.infer_text("a fine day", result_kind="logits").floats()
        best = client.infer_tokens(IDS, "classes").value()[0].name
    appliance.ctl("tenant", "remove", "candidate")
    good = {"name": "logits", "ids": IDS, "kind": "logits", "expect": {"values": logits}}
    others = [{"ids": IDS, "kind": "hidden", "expect": {"values": hidden, "tolerance": 0.1}}, "",
              {"text": "a fine day", "kind": "logits", "expect": {"values": text_logits, "tolerance": 0.01}},
              {"ids": IDS, "expect": {"label": best}}]
    off = [logits[0], logits[1] + 1, *logits[2:]]
    long = {"ids": [101] * 600, "kind": "logits", "expect": {"values": [0]}}
    with connect(namespaces, added) as client, Traffic(connect(namespaces, added)) as traffic:
        for name, lines, says in (
                ("values", [good, {**good, "expect": {"values": off}}], "jsonl:2 \\(logits\\): value 1 of 3 is"),
                ("number", [{**good, "expect": {"values": logits[:2]}}], "gives 3 values of logits, expected 2"),
                ("label", [{"ids": IDS, "expect": {"label": "zebra"}}], f"best class is '{best}'"),
                ("kind", [{"ids": IDS, "expect": {"values": [1]}}], "the model answers classes"),
                ("long", [good, long], "jsonl:2: the (input is longer|model refuses)"),
                ("generated", [{"ids": IDS, "kind": "tokens", "expect": {"tokens": [1]}}], "unsupported_kind"),
                ("key", [{**good, "expected": []}], "unknown key 'expected'"),
                ("json", ["{"], "jsonl:1"),
                ("image", [{"image_u8": "../cat", "expect": {"values": [1]}}], "file of the directory"),
                ("missing", [{"image_u8": "cat", "expect": {"values": [1]}}], "cat"),
                ("many", [good] * 65, "more than 64")):
            directory = with_samples(models(seed=2), tmp_path / name, *lines)
            with pytest.raises(CtlError, match=says):
                appliance.ctl("tenant", "update", "checked", "--model", str(directory))
            assert states(appliance, "checked") == [(1, "active")]
            assert ask(client).model_version == 1
        with pytest.raises(CtlError, match="value 1 of 3"):
            appliance.add_tenant("never", tmp_path / "values")
        assert appliance.ctl_json("group", "list")["groups"][0]["slots_used"] == 1
        directory = with_samples(models(seed=2), tmp_path / "good", good, *others)
        appliance.ctl("tenant", "update", "checked", "--model", str(directory), "--canary", "10%")
        appliance.ctl("tenant", "promote", "checked")
        assert ask(client).model_version == 2
        assert not traffic.losses and not traffic.refusals
    assert_accounted(appliance)
