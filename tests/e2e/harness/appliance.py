"""An itifd process: configuration, start, itifctl, stop and kill."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path

from .leftovers import remove_dpdk_files
from .namespaces import SERVER_IPV4, SERVER_IPV6
from .processes import AdoptedProcess, adopt_orphans

BUILD = Path(os.environ.get("ITIF_BUILD_DIR") or Path(__file__).parents[3] / "build")
HUGEPAGES = os.environ.get("ITIF_HUGEPAGES") == "yes"
START_SECONDS = 60
UNHEALTHY = 1  # exit status of `itifctl health`
UDP_PORT = 9009


def program(name):
    return str(BUILD / "app" / name if name == "itifd" else BUILD / "tools" / name / name)


class CtlError(AssertionError):
    def __init__(self, command, result):
        super().__init__(f"itifctl {' '.join(command)}: exit status {result.returncode}\n"
                         f"{result.stdout}{result.stderr}")
        self.result = result


def setting(value):
    """A Python value in libconfig's syntax."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        return json.dumps(value)
    return "[ " + ", ".join(setting(item) for item in value) + " ]"


class Appliance:
    """An appliance with one directory and one --file-prefix. It can be started several times."""

    def __init__(self, namespaces, directory, tag):
        self.namespaces = namespaces
        self.directory = Path(directory)
        self.directory.mkdir(parents=True, exist_ok=True)
        self.prefix = f"itif-e2e-{tag}"
        self.endpoint = f"ipc://{self.directory}/control.sock"
        self.process = None
        memory = ["--single-file-segments"] if HUGEPAGES else ["--no-huge", "-m", "512"]
        self.eal = ["--lcores=0,1", f"--file-prefix={self.prefix}", "--no-pci", "--iova-mode=va", *memory,
                    f"--vdev=net_af_packet0,iface={namespaces.server_link},blocksz=65536,"
                    "framesz=2048,framecnt=16384"]
        self.port = {"device": "net_af_packet0", "ipv4": [f"{SERVER_IPV4}/24"],
                     "ipv6": [f"{SERVER_IPV6}/64"]}
        self.sections = {
            "data_plane": {"mbufs": 16384, "reassembly_timeout": "300ms"},
            "device": {},
            "batching": {},
            "control": {"endpoint": self.endpoint,
                        "events_endpoint": f"ipc://{self.directory}/events.sock",
                        "state_dir": str(self.directory / "state")},
            "telemetry": {},
        }
        self.drain_timeout = "10s"
        self.program = program("itifd")
        self.output = None  # a descriptor, for standard output and error instead of the log's file
        self.environment = {}  # added to the process's

    # ---- files

    @property
    def config_path(self):
        return self.directory / "itifd.conf"

    @property
    def log_path(self):
        return self.directory / "itifd.log"

    def log(self):
        return self.log_path.read_text(encoding="utf-8", errors="replace") if self.log_path.exists() else ""

    def write_config(self):
        group = lambda keys: "{ " + " ".join(f"{k} = {setting(v)};" for k, v in keys.items()) + " }"
        lines = [f"eal = {group({'args': self.eal})};", f"ports = ( {group(self.port)} );"]
        lines += [f"{name} = {group(keys)};" for name, keys in self.sections.items()]
        lines.append(f"drain_timeout = {setting(self.drain_timeout)};")
        self.config_path.write_text("\n".join(lines) + "\n", encoding="utf-8")

    # ---- the process

    def itifd(self):
        """The command line, including the configuration."""
        return (self.program, "--config", str(self.config_path))

    def itifctl(self):
        return (program("itifctl"),)

    def launch(self, prefix=(), write_config=True):
        """Starts the process without waiting until it is ready."""
        if write_config:
            self.write_config()
        adopt_orphans()
        with open(self.log_path, "ab") as log:
            output = log if self.output is None else self.output
            self.process = subprocess.Popen(
                ("ip", "netns", "exec", self.namespaces.server, *prefix, *self.itifd()),
                stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True,
                env={**os.environ, **self.environment})
        return self

    def use_port(self, device, arguments=""):
        """Replaces the veth's port by another DPDK device; `arguments` are the rest of its --vdev."""
        self.eal = [argument for argument in self.eal if not argument.startswith("--vdev")]
        self.eal.append(f"--vdev={device}{arguments and ','}{arguments}")
        self.port["device"] = device
        return self

    def use_workers(self, workers):
        """Sets the port's workers. If there are several, their lcores share the CPUs with all else."""
        if workers == 1:
            return self
        self.eal = [argument for argument in self.eal if not argument.startswith("--lcores")]
        self.eal.append("--lcores=" + ",".join(f"{lcore}@(0-1)" for lcore in range(workers + 1)))
        self.port["num_workers"] = workers
        return self

    def start(self, prefix=(), link="up"):
        """Starts the process and returns when it is ready and healthy. `link` is the link's expected state, which may
        be down until a peer connects."""
        self.launch(prefix)
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            assert self.process.poll() is None, f"itifd ended at start:\n{self.log()[-4000:]}"
            status = self.ctl("health", check=False).returncode
            if status == 0 or (link == "down" and status == UNHEALTHY):
                return self
            time.sleep(0.05)
        raise AssertionError(f"itifd does not answer:\n{self.log()[-4000:]}")

    def run_to_the_end(self, seconds=30, prefix=()):
        """Runs a process that is expected to fail at start. Returns its exit status and output."""
        self.log_path.unlink(missing_ok=True)
        self.launch(prefix)
        status = self.process.wait(seconds)
        self.process = None
        return status, self.log()

    def alive(self):
        return self.process is not None and self.process.poll() is None

    def stop(self, seconds=20):
        """Sends SIGTERM and returns the exit status."""
        if not self.alive():
            return None
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"itifd did not end on SIGTERM:\n{self.log()[-4000:]}") from None

    def kill(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def adopt(self, pid):
        """Continues with a process that a handover started."""
        self.process = AdoptedProcess(pid)

    def handover(self, *options, link="up"):
        """Hands over to a new process, which is this appliance's from then on. Returns itifctl's answer."""
        try:
            answer = self.ctl_json("handover", *options)
        except CtlError as error:
            raise AssertionError(f"{error}\n{self.log()[-4000:]}") from error
        assert self.process.wait(20) == 0, self.log()[-4000:]
        self.adopt(answer["pid"])
        # The peer of a memif connects again within a second or so.
        deadline = time.monotonic() + 10
        while (status := self.ctl("health", check=False).returncode) != 0:
            if link == "down" and status == UNHEALTHY:
                break
            assert time.monotonic() < deadline, self.log()[-4000:]
            time.sleep(0.05)
        return answer

    def forget(self):
        """Kills the process if it runs, and removes the files that a killed DPDK process leaves."""
        self.kill()
        for prefix in (self.prefix, f"{self.prefix}-handover"):
            remove_dpdk_files(prefix)

    # ---- itifctl

    def ctl(self, *arguments, check=True, namespace=None, timeout=60):
        enter = ("ip", "netns", "exec", namespace) if namespace else ()
        result = subprocess.run((*enter, *self.itifctl(), "--endpoint", self.endpoint, *arguments),
                                stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout,
                                env={**os.environ, "XDG_CONFIG_HOME": str(self.directory)})
        if check and result.returncode != 0:
            raise CtlError(arguments, result)
        return result

    def ctl_json(self, *arguments, check=True):
        return json.loads(self.ctl("--json", *arguments, check=check).stdout)

    def add_tenant(self, name, model, *options):
        """Returns itifctl's answer, which contains id and key."""
        return self.ctl_json("tenant", "add", name, "--model", str(model), *options)
