"""The systemd unit: valid, and limited as far as itifd can be. Needs systemd-analyze, but no root and no appliance."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
MOST_EXPOSED = 25  # tenths, of 100

pytestmark = pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="no systemd-analyze")


def analyze(*arguments):
    return subprocess.run(("systemd-analyze", "--no-pager", *arguments), capture_output=True, text=True, timeout=60,
                          check=False)


@pytest.fixture
def unit(tmp_path):
    """The unit as it is installed, with a program that exists."""
    text = (REPOSITORY / "conf" / "itifd.service.in").read_text(encoding="utf-8")
    text = text.replace("@bindir@/itifd", "/bin/true").replace("@sysconfdir@", "/etc")
    assert not re.findall(r"@[a-z]+dir@", text)
    path = tmp_path / "itifd.service"
    path.write_text(text, encoding="utf-8")
    return path


def test_the_unit_is_valid(unit):
    done = analyze("verify", str(unit))
    assert "itifd.service" not in done.stderr, done.stderr


def test_the_exposure_is_small(unit):
    done = analyze("security", "--offline=true", f"--threshold={MOST_EXPOSED}", str(unit))
    assert done.returncode == 0, done.stdout + done.stderr
    without = unit.read_text(encoding="utf-8").replace("User=itif\n", "")
    unit.write_text(without, encoding="utf-8")
    assert analyze("security", "--offline=true", f"--threshold={MOST_EXPOSED}", str(unit)).returncode != 0


def expand(group, seen=None):
    """The system calls of a group, groups within it included."""
    seen = set() if seen is None else seen
    if group in seen:
        return set()
    seen.add(group)
    calls = set()
    for line in analyze("syscall-filter", group).stdout.splitlines()[1:]:
        name = line.strip()
        if name.startswith("@"):
            calls |= expand(name, seen)
        elif name and not name.startswith("#"):
            calls.add(name)
    return calls


def test_the_unit_allows_what_the_filter_of_itifd_allows(unit):
    allowed = set()
    for line in re.findall(r"^SystemCallFilter=(.*)$", unit.read_text(encoding="utf-8"), re.MULTILINE):
        calls = set()
        for word in line.removeprefix("~").split():
            calls |= expand(word) if word.startswith("@") else {word}
        allowed = allowed - calls if line.startswith("~") else allowed | calls
    source = (REPOSITORY / "lib" / "serving" / "seccomp_filter.cc").read_text(encoding="utf-8")
    own = set(" ".join(re.findall(r'^ +"([a-z0-9_ ]+)"', source, re.MULTILINE)).split())
    assert len(own) > 100
    assert own <= allowed, own - allowed
