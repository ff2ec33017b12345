"""tools/gpu-check on the simulated GPU: the script runs, serves over memif, and writes its results."""

import json
import os
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import pytest
from harness.appliance import BUILD, program

GPU_CHECK = Path(__file__).parents[2] / "tools" / "gpu-check"
needs_simt = pytest.mark.skipif(not (BUILD / "tests" / "simt" / "itifd_on_simt").exists(),
                                reason="built without tests/simt")


def run(*arguments):
    return subprocess.run((GPU_CHECK, "--build", BUILD, *arguments), stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=500)


def processes(word):
    """The command lines of running processes that contain the word."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes().decode(errors="replace")
        except OSError:
            continue
        if word in line:
            found.append(line)
    return found


@needs_simt
def test_it_cleans_up_when_interrupted(tmp_path):
    with tempfile.TemporaryDirectory() as scratch:  # a short path, for sockets
        check = subprocess.Popen((GPU_CHECK, "--build", BUILD, "--rehearse", "--part", "serve", "--out", tmp_path),
                                 env={**os.environ, "TMPDIR": scratch}, stdin=subprocess.DEVNULL,
                                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 60
        while not processes(f"{scratch}/") or not list(Path(scratch).glob("*/memif0.sock")):
            assert check.poll() is None and time.monotonic() < deadline
            time.sleep(0.05)
        check.send_signal(signal.SIGTERM)
        assert check.wait(30) == 128 + signal.SIGTERM
        assert not processes(f"{scratch}/") and not list(Path(scratch).iterdir())


def test_failures_are_reported_and_counted(tmp_path):
    """With fake programs: one fails and prints text that JSON must escape, one is killed, one passes."""
    build = tmp_path / "build"
    (build / "meson-info").mkdir(parents=True)
    for name, script in {
        "tests/simt/test_kernels_on_simt": r"""printf 'x.cc:7: Failure\n\tsaid "\\|\377"\n[  FAILED  ] A.B\n'
                                               exit 3""",
        "tests/simt/test_cuda_device": "kill -KILL $$",
        "tests/simt/test_models_on_simt": "echo '[  PASSED  ] 5 tests.'",
        **{f"tests/simt/{name}": "exit 1" for name in ("itifd_on_simt", "bench_on_simt")},
        **{f"tools/{tool}/{tool}": "exit 1" for tool in ("itifctl", "itif-loadgen", "itif-mkmodel")},
    }.items():
        (build / name).parent.mkdir(parents=True, exist_ok=True)
        (build / name).write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        (build / name).chmod(0o755)
    command = (GPU_CHECK, "--build", build, "--rehearse", "--part", "tests,serve", "--out", tmp_path / "out")
    result = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=60)
    assert result.returncode == 1 and result.stdout.splitlines()[-1] == b"1 passed, 6 failed, 1 skipped", result.stdout
    (written,) = (tmp_path / "out").glob("*/*.json")
    rows = json.loads(written.read_text(encoding="utf-8"))["rows"]
    assert [row["result"] for row in rows] == [*["failed"] * 2, "skipped", *["failed"] * 3, "passed", "failed"]
    assert rows[3]["detail"].startswith('exit status 3: [  FAILED  ] A.B  said "\\|"') and "killed" in rows[0]["detail"]
    assert "said" in next(written.parent.glob("*-failed-3.log")).read_text(errors="replace")
    assert rows[-1]["case"] == "making a model"
    table = written.with_suffix(".md").read_text(encoding="utf-8").splitlines()
    assert len([line for line in table if line.startswith("|")]) == 2 + len(rows)


@needs_simt
def test_the_file_names_the_parts_and_a_run_without_a_pass_fails(tmp_path):
    result = run("--rehearse", "--part", "sanitizer,sanitizer", "--out", tmp_path)
    assert result.returncode == 1 and result.stdout.splitlines()[-1] == "0 passed, 0 failed, 2 skipped"
    assert [path.name[10:] for path in tmp_path.glob("*/*.md")] == ["-sanitizer-sanitizer.md"]


@needs_simt
def test_an_unwritable_output_is_reported_first():
    result = run("--rehearse", "--out", "/proc")
    assert result.returncode == 2 and "--out" in result.stderr and len(result.stderr.splitlines()) == 1


@needs_simt
def test_a_rehearsal_passes_and_writes_its_results(tmp_path):
    result = run("--rehearse", "--out", tmp_path)
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.splitlines()[-1] == "17 passed, 0 failed, 5 skipped"
    (folder,) = tmp_path.iterdir()
    (written,) = folder.glob("*.json")
    document = json.loads(written.read_text(encoding="utf-8"))
    assert document["gpu"] == "simulated device"
    assert [row["part"] for row in document["rows"]] == [
        *7 * ["tests"], "sanitizer", *3 * ["serve"], *8 * ["bench"], "tenants", "groups", "tcb"]
    serve = document["rows"][8]
    assert serve["median_us"] > 0 and serve["requests_per_s"] > 0
    assert serve["result"] == "passed" and " 0 lost" in serve["detail"] and "requests per batch" in serve["detail"]
    assert document["rows"][9]["case"] == "a handover under load" and " 0 lost" in document["rows"][9]["detail"]
    assert "over alone, slices" in document["rows"][10]["case"] and document["rows"][10]["value"] > 0
    assert written.with_suffix(".md").read_text(encoding="utf-8").count("| passed |") == 17
    assert [bench["bench"] for bench in document["benches"]] == ["gather", "gemm", "operators"]
    for bench in document["benches"]:
        assert "error" not in bench and all(row["value"] > 0 and "limit" in row for row in bench["rows"])
        assert f"## {bench['bench']}\n" in written.with_suffix(".md").read_text(encoding="utf-8")


def test_its_benches_take_the_options():
    """Every bench of a real run, with its options, but without cases, on the host."""
    script = GPU_CHECK.read_text(encoding="utf-8").replace("\\\n", " ")
    lines = [line.split() for line in script.splitlines() if line.startswith("  run_bench ")]
    benches = {name: options for _, _, name, _, *options in lines}
    assert {"concat", "slots", "cleaning", "schedulers", "slices", "encoder"} <= set(benches), benches
    for name, options in benches.items():
        options = [option for option in options if "cases[" not in option]
        if "--case" in options:
            options = options[:options.index("--case")]
        done = subprocess.run((program("itif-bench"), name, "--device", "host", *options, "--case", "none", "--skip-unknown"),
                              capture_output=True, text=True, timeout=100)
        assert done.returncode == 0, (name, options, done.stderr)


@pytest.mark.parametrize("arguments, words", [
    (("--part", "nothing"), "--part wants"),
    (("--part", "tests,nothing"), "--part wants"),
    (("--part",), "--part wants"),
    (("--minutes", "0"), "--minutes wants"),
    (("--nonsense",), "unknown option"),
    (("--build", "/nowhere"), "--build wants"),
])
def test_the_error_for_wrong_arguments_is_one_line(arguments, words):
    result = run(*arguments)
    assert result.returncode == 2 and words in result.stderr and len(result.stderr.splitlines()) == 1


@pytest.mark.skipif(Path("/dev/nvidiactl").exists(), reason="there is a GPU")
def test_a_missing_gpu_is_reported():
    result = run()
    assert result.returncode == 2
    assert "gpu-check: " in result.stderr and len(result.stderr.splitlines()) == 1
