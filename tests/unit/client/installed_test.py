"""The installed client library: installs it into a temporary directory, finds it with pkg-config, and builds and runs
the documents' example with it, without headers or libraries of the source tree."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path


def main(build, source, compiler):
    with tempfile.TemporaryDirectory(prefix="itif-installed-") as root:
        subprocess.run(("meson", "install", "-C", build, "--no-rebuild", "--tags", "devel", "--destdir", root),
                       check=True, stdout=subprocess.DEVNULL)
        packages = [str(path.parent) for path in Path(root).rglob("itif-client.pc")]
        assert len(packages) == 1, packages
        environment = {**os.environ, "PKG_CONFIG_SYSROOT_DIR": root}
        environment["PKG_CONFIG_PATH"] = os.pathsep.join(packages)
        flags = subprocess.run(("pkg-config", "--cflags", "--libs", "itif-client"), check=True, text=True,
                               stdout=subprocess.PIPE, env=environment).stdout.split()
        program = Path(root) / "ask"
        # Outside of the source tree, so that its headers are not found.
        example = Path(root) / "ask.cc"
        example.write_bytes((Path(source) / "docs/examples/ask.cc").read_bytes())
        subprocess.run((compiler, "-Wall", "-Wextra", "-Werror", "-o", program, example, *flags), check=True, cwd=root)
        ran = subprocess.run((program,), capture_output=True, text=True)
        assert ran.returncode == 2 and ran.stderr.startswith("usage: ask"), ran
        ran = subprocess.run((program, "127.0.0.1:1", "1", "00" * 16, "x"), capture_output=True, text=True)
        assert ran.returncode == 1 and "127.0.0.1" in ran.stderr, ran


if __name__ == "__main__":
    main(*sys.argv[1:])
