"""Fixtures of the end-to-end tests, which use real processes, sockets and namespaces. They need root."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[2] / "docs" / "examples"))  # itif_client

from harness import appliance as appliance_module  # noqa: E402
from harness.leftovers import remove_leftovers  # noqa: E402
from harness.namespaces import Namespaces, run  # noqa: E402

_tags = iter(range(1, 1000))


def _tag():
    return f"{os.getpid()}x{next(_tags)}"


def _interrupted(*_):
    """Ends the run so that fixtures clean up, and ignores further signals meanwhile."""
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.SIG_IGN)
    raise KeyboardInterrupt


def pytest_sessionstart():
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, _interrupted)
    if os.geteuid() == 0 and shutil.which("ip"):
        remove_leftovers()


def pytest_collection_modifyitems(items):
    reason = None
    if os.geteuid() != 0:
        reason = "no root: network namespaces need it"
    elif not Path(appliance_module.program("itifd")).exists():
        reason = "itifd is not built"
    elif subprocess.run(("unshare", "--net", "true"), stderr=subprocess.DEVNULL, check=False).returncode:
        reason = "this container may not make network namespaces"
    if reason:
        for item in items:
            if "namespaces" in item.fixturenames or item.module.__name__ == "test_quickstart":
                item.add_marker(pytest.mark.skip(reason=reason))


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """Adds the end of each appliance's log to the report of a failure."""
    outcome = yield
    report = outcome.get_result()
    if report.failed:
        for name, value in getattr(item, "funcargs", {}).items():
            if isinstance(value, appliance_module.Appliance):
                report.sections.append((f"log of {name}", value.log()[-6000:]))


@pytest.fixture(scope="module")
def namespaces():
    made = Namespaces(_tag())
    try:
        made.make()
        yield made
    finally:
        made.remove()


@pytest.fixture(scope="session")
def scratch(tmp_path_factory):
    """A temporary directory with a short path, because Unix socket paths are limited."""
    directory = Path("/tmp") / f"itif-e2e-{os.getpid()}"
    directory.mkdir()
    yield directory
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture(scope="session")
def models(scratch):
    """models(seed=…, head=…, labels=…, backbone=…): the directory of a small model, made once. The backbone's name may
    be followed by options of itif-mkmodel."""
    made = {}

    def make(seed=1, head="classification", labels="a,b,c", backbone="bert-tiny", dtype="f32"):
        key = (seed, head, labels, backbone, dtype)
        if key not in made:
            directory = scratch / "models" / "-".join(str(part) for part in key).replace(",", "_").replace(" ", "")
            options = ["--labels", labels] if labels and head.endswith("classification") else []
            run(appliance_module.program("itif-mkmodel"), "--backbone", *backbone.split(), "--head", head, *options,
                "--dtype", dtype, "--seed", str(seed), "--out", str(directory))
            made[key] = directory
        return made[key]

    return make


@pytest.fixture
def new_appliance(namespaces, scratch):
    """new_appliance(): an appliance that is configured but not started. It ends with the test."""
    made = []

    def make():
        tag = _tag()
        made.append(appliance_module.Appliance(namespaces, scratch / tag, tag))
        return made[-1]

    yield make
    for each in made:
        each.forget()
        shutil.rmtree(each.directory, ignore_errors=True)


@pytest.fixture
def appliance(new_appliance):
    """A running appliance without tenants."""
    return new_appliance().start()
