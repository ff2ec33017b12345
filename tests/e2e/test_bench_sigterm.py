"""A bench that gets SIGTERM while it starts a program stops that program, too."""

import os
import subprocess
import sys
from pathlib import Path

from harness.processes import command_lines

LIB = Path(__file__).parents[2] / "tools" / "lib"

# The new process sends SIGTERM to the bench before it becomes the program: the bench is still in
# Popen().
BENCH = """
import os, signal, subprocess, sys, time
sys.path.insert(0, sys.argv[1])
from bench_machine import clean_up_at_sigterm

def terminate():
    os.kill(os.getppid(), signal.SIGTERM)
    time.sleep(0.1)

clean_up_at_sigterm()
subprocess.run(["sleep", sys.argv[2]], preexec_fn=terminate)
print("not reached")
"""


def test_sigterm_while_a_program_starts():
    seconds = f"60.{os.getpid():08}"  # names the program among all that run
    result = subprocess.run((sys.executable, "-c", BENCH, LIB, seconds), capture_output=True, text=True, timeout=30,
                            check=False)
    assert (result.returncode, result.stdout, result.stderr) == (143, "", "")
    assert f"sleep {seconds} " not in command_lines()
