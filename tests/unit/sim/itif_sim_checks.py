"""Shared by the tests of itif-sim: runs its subcommands in processes of their own, and prints results as TAP."""

import subprocess


def run(program, *arguments, cwd=None):
    return subprocess.run([program, *arguments], capture_output=True, text=True, timeout=200, cwd=cwd)


class Checks:
    def __init__(self):
        self._results = []

    def __call__(self, name, good, output=""):
        """`output`: shown if the check fails."""
        self._results.append((name, bool(good), output))

    def report(self):
        """Prints all checks as TAP. Returns the exit status of the test."""
        print(f"1..{len(self._results)}")
        for number, (name, good, output) in enumerate(self._results, 1):
            print(f"{'ok' if good else 'not ok'} {number} - {name}")
            for line in [] if good else output.splitlines():
                print(f"# {line}")
        return 0 if all(good for _, good, _ in self._results) else 1
