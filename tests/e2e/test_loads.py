"""Models load in the background, several at the same time."""

import contextlib
import ctypes
import os
import struct
import threading
import time
from pathlib import Path

from harness.clients import Traffic, connect, same_floats, wait_until
from harness.processes import each_thread, name_of
from test_lifecycle import wait_admitted
from test_tenants import tenants

IDS = [101, 2000, 2001, 102]
COUNT = 6
SCHED_OTHER, SCHED_IDLE = os.SCHED_OTHER, os.SCHED_IDLE


def policies(pid):
    """(name, policy) of each thread of a process."""
    return each_thread(pid, lambda task: (name_of(task), os.sched_getscheduler(int(task.name))))


def add(appliance, models, count=COUNT):
    return [appliance.add_tenant(f"t{i}", models(seed=i + 1, backbone="minilm-l6" if i % 2 else "bert-tiny"))
            for i in range(count)]


@contextlib.contextmanager
def opens_of(file):
    """A list that gets an element each time that a thread opens the file (fanotify).

    inotify would make one event of two opens that nobody has read yet; fanotify does so only for opens by one thread.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    report_tid, mark_add, in_open, at_fdcwd = 0x100, 1, 0x20, -100
    watch = libc.fanotify_init(report_tid, os.O_RDONLY)
    assert watch >= 0, os.strerror(ctypes.get_errno())
    added = libc.fanotify_mark(watch, mark_add, ctypes.c_uint64(in_open), at_fdcwd, os.fsencode(file))
    assert added == 0, os.strerror(ctypes.get_errno())
    opens, done = [], threading.Event()

    def read():
        event = struct.Struct("=IBBHQii")  # its length, …, a descriptor of the file, the thread
        while not done.is_set():
            for fields in event.iter_unpack(os.read(watch, 100 * event.size)):
                os.close(fields[5])
                opens.append(fields[6])

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    try:
        yield opens
    finally:
        done.set()
        Path(file).open("rb").close()  # wakes the reader
        reader.join()
        os.close(watch)


def states(appliance):
    return [tenant["state"] for tenant in tenants(appliance)]


def test_only_loaders_run_in_the_background(appliance, namespaces, models):
    added = add(appliance, models, 2)
    loaders = lambda: {policy for name, policy in policies(appliance.process.pid) if name == "itif-loader"}
    wait_until(lambda: loaders() == {SCHED_IDLE}, "loaders that a busy machine helped have ended their work")
    found = policies(appliance.process.pid)
    others = [(name, policy) for name, policy in found if name != "itif-loader"]
    assert [each for each in others if each[0] == "itif-group"]
    assert all(policy == SCHED_OTHER for _, policy in others), others
    with connect(namespaces, added[0]) as client:
        assert client.infer_tokens(IDS, "logits").payload


def test_all_tenants_answer_as_before_after_a_restart(appliance, namespaces, models):
    added = add(appliance, models)
    before = []
    for tenant in added:
        with connect(namespaces, tenant) as client:
            before.append(client.infer_tokens(IDS, "logits").payload)
    appliance.kill()
    appliance.start()
    wait_until(lambda: states(appliance) == ["serving"] * COUNT, "all tenants are restored", 60)
    assert len(appliance.ctl_json("group", "list")["groups"]) == 2
    for tenant, payload in zip(added, before):
        with connect(namespaces, tenant) as client:
            assert same_floats(client.infer_tokens(IDS, "logits").payload, payload)


def test_a_stop_during_the_restore_ends_it(appliance, models):
    add(appliance, models)
    appliance.kill()
    appliance.launch()
    wait_until(lambda: appliance.ctl("health", check=False).stdout, "the control server answers", 30)
    start = time.monotonic()
    assert appliance.stop() == 0, appliance.log()[-3000:]
    assert time.monotonic() - start < 15
    appliance.start()
    wait_until(lambda: states(appliance) == ["serving"] * COUNT, "all tenants are restored", 60)


def test_a_tenant_that_cannot_be_restored_holds_up_no_other(appliance, models):
    add(appliance, models)
    copy = appliance.directory / "gone"
    os.symlink(models(seed=50), copy)
    appliance.add_tenant("gone", copy)
    appliance.kill()
    copy.unlink()
    appliance.launch()
    wait_until(lambda: appliance.ctl("health", check=False).stdout, "the control server answers", 30)
    wait_until(lambda: "loading" not in states(appliance), "the restore has ended", 60)
    assert {tenant["name"]: tenant["state"] for tenant in tenants(appliance)} == {
        **{f"t{i}": "serving" for i in range(COUNT)}, "gone": "failed"}


def test_requests_are_answered_while_models_come_and_go(appliance, namespaces, models):
    steady = appliance.add_tenant("steady", models())
    with connect(namespaces, steady) as client, Traffic(client, tokens=16) as traffic:
        for turn in range(3):
            appliance.add_tenant("passing", models(seed=20 + turn, backbone="minilm-l6"))
            appliance.ctl("tenant", "update", "passing", "--model", str(models(seed=30 + turn, backbone="minilm-l6")))
            appliance.ctl("tenant", "remove", "passing")
    assert traffic.answers
    assert not traffic.losses and not traffic.refusals


def test_weights_are_opened_once_for_each_use(appliance, models):
    """By the process that checks models, by the load and for the digest, which a restart does not compute again."""
    model = models(seed=5, backbone="bert-tiny")
    with opens_of(Path(model) / "model.safetensors") as opens:
        for name in ("of_a_new_group", "of_a_known_group"):
            appliance.add_tenant(name, model)
            wait_until(lambda: len(opens) >= 3, name)
            assert len(opens) == 3, name
            opens.clear()
        appliance.kill()
        appliance.start()
        wait_admitted(appliance, 2)
        wait_until(lambda: len(opens) >= 2 * 2, "the opens are read")
        assert len(opens) == 2 * 2
