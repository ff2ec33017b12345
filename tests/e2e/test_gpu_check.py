"""tools/gpu-check on the simulated GPU: the script runs, serves over memif, and writes what it found."""

import json
import subprocess
from pathlib import Path

import pytest
from harness import appliance as appliance_module

GPU_CHECK = Path(__file__).parents[2] / "tools" / "gpu-check"
NEEDED = appliance_module.BUILD / "tests" / "simt" / "itifd_on_simt"


def run(*arguments):
    return subprocess.run((GPU_CHECK, "--build", appliance_module.BUILD, *arguments), stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=120)


@pytest.mark.skipif(not NEEDED.exists(), reason="built without tests/simt")
def test_a_rehearsal_passes_and_is_written_down(tmp_path):
    result = run("--rehearse", "--out", tmp_path)
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.splitlines()[-1] == "4 passed, 0 failed, 1 skipped"
    (folder,) = tmp_path.iterdir()
    (written,) = folder.glob("*.json")
    document = json.loads(written.read_text(encoding="utf-8"))
    assert document["gpu"] == "simulated device"
    assert [row["part"] for row in document["rows"]] == ["tests", "tests", "tests", "sanitizer", "serve"]
    serve = document["rows"][-1]
    assert serve["result"] == "passed" and " 0 lost" in serve["detail"] and "requests a batch" in serve["detail"]
    assert written.with_suffix(".md").read_text(encoding="utf-8").count("| passed |") == 4


@pytest.mark.parametrize("arguments, words", [
    (("--part", "nothing"), "--part wants"),
    (("--nonsense",), "unknown option"),
    (("--build", "/nowhere"), "--build wants"),
])  # fmt: skip
def test_wrong_arguments_are_one_line(arguments, words):
    result = run(*arguments)
    assert result.returncode == 2 and words in result.stderr and len(result.stderr.splitlines()) == 1


@pytest.mark.skipif(Path("/dev/nvidiactl").exists(), reason="there is a GPU")
def test_without_a_gpu_it_says_so():
    result = run()
    assert result.returncode == 2
    assert "gpu-check: " in result.stderr and len(result.stderr.splitlines()) == 1
