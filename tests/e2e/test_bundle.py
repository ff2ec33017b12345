"""An unpacked and moved bundle runs in an otherwise empty root: no shell, loader, library or /proc. Its answers equal
those of the programs it was made from."""

import json
import os
import re
import subprocess
import tempfile
from pathlib import Path

import pytest
from harness.appliance import BUILD, HUGEPAGES, Appliance, program
from harness.namespaces import run

SOURCE = Path(__file__).parents[2]
MAKE_BUNDLE = SOURCE / "tools" / "make-bundle"
HERE = "/opt/moved here"  # the bundle's folder in its root
FROM_THE_MACHINE = re.compile(r"lib(cuda|cublas|cudnn|nvidia|nvrtc|nvJitLink)")
TEXT = "a fine day"
HAS_GPU_TESTS = (BUILD / "tests" / "gpu" / "models_on_gpu").exists()  # built with the CUDA toolkit
CAN_REHEARSE = HAS_GPU_TESTS and (BUILD / "tests" / "simt" / "itifd_on_simt").exists()

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="no root: chroot needs it"),
    pytest.mark.skipif(not Path(program("itifd")).exists(), reason="itifd is not built"),
]


@pytest.fixture(scope="module")
def root(scratch):
    """A root that contains only the bundle."""
    base = scratch / "bundle"
    base.mkdir()
    output = run(MAKE_BUNDLE, "--build", BUILD, "--level", "0", "--out", base / "itif.tar.xz",
                 *(["--with-gpu-check"] if HAS_GPU_TESTS else []), timeout=300)
    assert re.fullmatch(r"make-bundle: .*/itif\.tar\.xz: [\d.]+ MB, unpacked [\d.]+ MB", output.splitlines()[-1])
    (base / "unpacked").mkdir()
    run("tar", "--extract", "--directory", base / "unpacked", "--file", base / "itif.tar.xz")
    (base / "root/opt").mkdir(parents=True)
    top, = (base / "unpacked").iterdir()
    top.rename(base / f"root{HERE}")
    return base / "root"


def inside(root, name, *arguments, **options):
    """Runs a program of the bundle with an empty environment; returns its result."""
    command = name if "/" in name else f"{HERE}/bin/{name}"
    return subprocess.run(("/usr/sbin/chroot", root, command, *arguments), env=options.pop("env", {}),
                          capture_output=True, text=True, timeout=60, check=False, **options)


@pytest.fixture(scope="module")
def model(root):
    """The path, within the root, of a model that the bundle's itif-mkmodel made."""
    made = inside(root, "itif-mkmodel", "--backbone", "bert-tiny", "--head", "classification", "--labels", "a,b,c",
                  "--dtype", "f32", "--seed", "3", "--out", "/models/three")
    assert made.returncode == 0, made.stdout + made.stderr
    return "/models/three"


def elf_files(root):
    return [path for path in root.rglob("*")
            if path.is_file() and not path.is_symlink() and path.open("rb").read(4) == b"\x7fELF"]


def test_the_bundle_has_all_libraries(root):
    bundle = root / HERE[1:]
    needed = {name: file
              for file in elf_files(bundle)
              for name in re.findall(r"\(NEEDED\).*\[(.+)\]", run("readelf", "--wide", "--dynamic", file))}
    assert {"libc.so.6", "librte_eal.so.23", "libdnnl.so.2"} <= needed.keys()
    present = {path.name for path in (bundle / "lib").glob("**/*.so*")}
    missing = {name: file for name, file in needed.items()
               if name not in present and not FROM_THE_MACHINE.match(name)}
    assert not missing
    assert not [name for name in present if FROM_THE_MACHINE.match(name)]


def test_no_file_names_the_build_directories(root):
    bundle = root / HERE[1:]
    places = {str(place).encode() for place in (SOURCE, BUILD, BUILD.parent)}
    told = re.compile(rb"(?<![\w./-])(?:" + b"|".join(map(re.escape, places)) + rb")/")
    for path in bundle.rglob("*"):
        if path.is_file() and not path.is_symlink():
            data = path.read_bytes()
            assert not told.search(data), path
            assert data[:4] != b"\x7fELF" or b"\0.debug_info" not in data, f"{path} is not stripped"


def test_models_give_the_same_results_as_outside(root, model):
    line = json.dumps({"text": TEXT})
    arguments = ("--device", "host", "--dtype", "f32", "--kind", "logits")
    (root / "run-models").symlink_to(f"{HERE}/bin/itif-run")
    within = inside(root, "/run-models", "--model", model, *arguments, input=line)
    assert within.returncode == 0 and "cannot" not in within.stderr, within.stderr
    outside = subprocess.run((program("itif-run"), "--model", f"{root}{model}", *arguments), input=line,
                             capture_output=True, text=True, timeout=60, check=True)
    got, expected = json.loads(within.stdout)["values"], json.loads(outside.stdout)["values"]
    assert len(got) == 3 and max(abs(a - b) for a, b in zip(got, expected)) <= 1e-6


@pytest.mark.parametrize("name", ["itifd", "itifctl", "itif-loadgen", "itif-mkmodel", "itif-run", "itif-bench"])
def test_every_program_starts(root, name):
    result = inside(root, name, "--help")
    assert result.returncode == 0 and "--help" in result.stdout and not result.stderr, result.stderr


def test_the_error_for_a_missing_program_is_one_line(root):
    os.link(root / f"{HERE[1:]}/bin/itifctl", root / f"{HERE[1:]}/bin/itif")
    result = inside(root, "itif", "--help")
    assert result.returncode == 127 and len(result.stderr.splitlines()) == 1, result.stderr


def loaded_by_itifctl(bundle, **environment):
    """The libraries that the bundle's itifctl loads when it runs outside of the root."""
    result = subprocess.run((f"{bundle}/bin/itifctl", "--help"), env={"LD_DEBUG": "files", **environment},
                            capture_output=True, text=True, timeout=60, check=True)
    return set(re.findall(r"calling init: (/.*\.so\S*)", result.stderr))


def test_the_newer_c_library_of_machine_and_bundle_is_used(root, tmp_path):
    bundle = root / HERE[1:]
    own, others = f"{bundle}/lib/c/", f"{bundle}/lib/"
    machines = {path for path in loaded_by_itifctl(bundle) if not path.startswith(others)}
    assert any(path.endswith("/libc.so.6") for path in machines)
    assert {Path(path).name for path in machines} <= {path.name for path in Path(own).iterdir()}
    assert f"{others}libstdc++.so.6" in loaded_by_itifctl(bundle)

    copy = tmp_path / "newer"
    run("cp", "-a", bundle, copy)
    loader = copy / "lib/c/ld-linux-x86-64.so.2"
    text = loader.read_bytes()
    assert text.count(b" release version 2.") == 1
    loader.write_bytes(text.replace(b" release version 2.", b" release version 3."))
    for loaded in (loaded_by_itifctl(copy), loaded_by_itifctl(bundle, ITIF_C_LIBRARY="bundle")):
        assert {Path(path).name for path in loaded} >= {"libc.so.6", "libm.so.6"}
        assert not [path for path in loaded if not path.startswith((f"{copy}/lib/", others))]


@pytest.mark.parametrize("text", ["ld.so release version 2.17.", "ld.so release version 9.9.", "", "musl"])
def test_any_loader_of_the_machine_is_accepted(root, text):
    """An old one, a new one that cannot be executed, and one that prints no version."""
    loader = root / "lib64" / "ld-linux-x86-64.so.2"
    loader.parent.mkdir(exist_ok=True)
    try:
        loader.write_text(text, encoding="utf-8")
        loader.chmod(0o755)
        result = inside(root, "itifctl", "--help")
        assert result.returncode == 0 and "--help" in result.stdout and not result.stderr, result.stderr
    finally:
        loader.unlink()
        loader.parent.rmdir()


@pytest.mark.skipif(not HAS_GPU_TESTS, reason="built without the CUDA toolkit")
def test_the_gpus_tests_find_their_data(root):
    data = {"ITIF_TEST_DATA": f"{HERE}/tests/data"}
    cases = {"kernels_on_gpu": "HeadSizes", "device_on_gpu": "Gather.", "models_on_gpu": "vit_f32_on_bf16"}
    for name, case in cases.items():
        listed = inside(root, f"{HERE}/tests/{name}", "--gtest_list_tests", env=data)
        assert listed.returncode == 0 and case in listed.stdout, listed.stdout + listed.stderr


@pytest.mark.skipif(not CAN_REHEARSE, reason="built without the CUDA toolkit or tests/simt")
def test_its_gpu_check_passes(root):
    """Runs the bundle's check on the build's simulated GPU, as a user without rights or environment."""
    bundle = root / HERE[1:]
    with tempfile.TemporaryDirectory() as folder:  # a short path, for sockets
        os.chmod(folder, 0o777)
        readable = [parent for path in (bundle, BUILD) for parent in path.parents]
        if not all(parent.stat().st_mode & 0o5 == 0o5 for parent in readable):
            pytest.skip("other users may not read the tests' folders")
        ids = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all", "--bounding-set=-all"]
        result = subprocess.run((*ids, f"{bundle}/bin/itif-gpu-check", "--rehearse", "--build", BUILD, "--part", "tests"),
                                env={"PATH": "/usr/bin:/bin", "TMPDIR": folder}, cwd=folder, stdin=subprocess.DEVNULL,
                                capture_output=True, text=True, timeout=300)
        assert result.returncode == 0, result.stdout + result.stderr
        written, = Path(folder).glob("results/*/*.json")
        document = json.loads(written.read_text(encoding="utf-8"))
        assert document["commit"] == (bundle / "COMMIT").read_text(encoding="utf-8").strip()
        assert {row["result"] for row in document["rows"]} - {"skipped"} == {"passed"}


def test_outside_it_does_not_load_the_machines_dpdk(root, new_appliance):
    """The drivers of a DPDK that is installed here would otherwise be registered twice."""
    appliance = new_appliance()
    appliance.itifd = lambda: (f"{root}{HERE}/bin/itifd", "--config", str(appliance.config_path))
    appliance.start()
    maps = Path(f"/proc/{appliance.process.pid}/maps").read_text(encoding="utf-8")
    loaded = {line.split(maxsplit=5)[5] for line in maps.splitlines() if ".so" in line}
    assert any("librte_net_af_packet" in path for path in loaded)
    others = {path for path in loaded if not path.startswith(f"{root}{HERE}/")}
    assert {Path(path).name for path in others} <= {path.name for path in (root / HERE[1:] / "lib/c").iterdir()}


@pytest.mark.parametrize("arguments", [
    ("--build",), ("--build", "/nonexistent"), ("--build", "/"), ("--out", "bundle.zip"), ("--out", "/nonexistent/a.tar.xz"),
    ("--level", "10"), ("--fast",), ("x",)], ids=" ".join)
def test_the_error_for_wrong_arguments_is_one_line(arguments):
    result = subprocess.run((MAKE_BUNDLE, *arguments), capture_output=True, text=True, timeout=60, check=False)
    lines = (result.stdout + result.stderr).strip().splitlines()
    assert result.returncode == 1 and len(lines) == 1 and lines[0].startswith("make-bundle: "), lines


class BundledAppliance(Appliance):
    """itifd and itifctl of the bundle within its root, with the test's directory as /run.

    itifd needs the machine's /sys (for its cores) and a /var/run for DPDK's files.
    """

    def __init__(self, namespaces, root, tag):
        super().__init__(namespaces, root / "run", tag)
        self.root = root
        self.endpoint = "ipc:///run/control.sock"
        self.sections["control"] = {"endpoint": self.endpoint, "events_endpoint": "ipc:///run/events.sock",
                                    "state_dir": "/run/state"}
        self.sections["device"] = {"kind": "host", "dtype": "f32"}
        if HUGEPAGES:
            self.eal.remove("--single-file-segments")
            self.eal += ["--no-huge", "-m", "512"]
        for folder in ("sys", "var/run"):
            (root / folder).mkdir(parents=True, exist_ok=True)

    def itifd(self):
        # `ip netns exec` makes a mount namespace, so that the mount ends with the process.
        return ("sh", "-c", 'mount --rbind /sys "$0/sys" && exec chroot "$0" "$@"', str(self.root),
                f"{HERE}/bin/itifd", "--config", "/run/itifd.conf")

    def itifctl(self):
        return ("chroot", str(self.root), f"{HERE}/bin/itifctl")


def test_it_serves(root, model, namespaces):
    appliance = BundledAppliance(namespaces, root, f"{os.getpid()}xb")
    try:
        appliance.start()
        name = Path(f"/proc/{appliance.process.pid}/comm").read_text(encoding="utf-8").strip()
        assert name == "itifd", "process lists and service managers must see the name itifd"
        appliance.add_tenant("t", model)
        answer = json.loads(appliance.ctl("--json", "infer", "t", TEXT, "--result", "logits",
                                          namespace=namespaces.client).stdout)
        expected = inside(root, "itif-run", "--model", model, "--dtype", "f32", "--kind", "logits",
                          input=json.dumps({"text": TEXT}))
        values = json.loads(expected.stdout)["values"]
        assert max(abs(a - b) for a, b in zip(answer["values"], values)) <= 1e-4, (answer, values)
        assert appliance.stop() == 0
        assert "cannot" not in appliance.log()
    finally:
        appliance.forget()
