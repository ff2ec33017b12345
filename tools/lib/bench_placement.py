"""The CPUs on which a bench runs its appliance and clients: all of them together, or apart."""

import os

HELP = "compute on the last CPU; packet worker and clients use the others"


class Placement:
    """With `separate`, batches compute on the last CPU, and packet worker and clients have the others. Otherwise all
    share all CPUs, as itifd places its threads: with few CPUs they delay each other, and p99 varies from run to run."""

    def __init__(self, separate):
        self._separate = separate
        self._cpus = sorted(os.sched_getaffinity(0))

    def place(self, appliance):
        """Call it before the appliance starts."""
        appliance.eal = [arg for arg in appliance.eal if not arg.startswith("--lcores")]
        if self._separate:
            appliance.eal.append(f"--lcores=0@{self._cpus[0]},1@{self._cpus[0]}")
            appliance.sections["device"] |= {"cpus": self._cpus[-1:], "threads": 1}

    def client(self):
        """The beginning of a client's command."""
        return ("taskset", "-c", ",".join(map(str, self._cpus[:-1] if self._separate else self._cpus)))
