"""The client library as others get it: installed into a directory of the test's own, found by pkg-config, and
used by the example of the documents, which no header or library of the source tree helps."""

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
        example = Path(root) / "ask.cc"  # away from the source tree, whose headers would be found beside it
        example.write_bytes((Path(source) / "docs/examples/ask.cc").read_bytes())
        subprocess.run((compiler, "-Wall", "-Wextra", "-Werror", "-o", program, example, *flags), check=True, cwd=root)
        ran = subprocess.run((program,), capture_output=True, text=True)
        assert ran.returncode == 2 and ran.stderr.startswith("usage: ask"), ran
        ran = subprocess.run((program, "127.0.0.1:1", "1", "00" * 16, "x"), capture_output=True, text=True)
        assert ran.returncode == 1 and "127.0.0.1" in ran.stderr, ran


if __name__ == "__main__":
    main(*sys.argv[1:])
