"""All checks of this repository, the quick ones first. Run: python checks.py [name ...]

This list is the only one: README.md, CONTRIBUTING.md and .ci/run all call this script.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

CHECKS = {
    "lint": ["ruff", "check", "."],
    "format": ["ruff", "format", "--check", "."],
    "types": ["mypy"],
    "layers": ["lint-imports"],
    "tests": ["pytest", "-n", "2", "--dist", "worksteal", "--doctest-modules", "tests", "src"],
    "docs": ["sphinx-build", "-q", "-W", "--keep-going", "-b", "html", "docs", "build/docs"],
}


def main(names: list[str]) -> int:
    """Run the named checks, or all; every one runs, and any failure makes the exit code 1."""
    unknown = sorted(set(names) - set(CHECKS))
    if unknown:
        print(
            f"no check named {', '.join(unknown)}; there are {', '.join(CHECKS)}", file=sys.stderr
        )
        return 2
    os.chdir(Path(__file__).parent)
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # two test processes already fill two cores
    scripts = Path(sysconfig.get_path("scripts"))  # works without activating the environment
    summary, failed = [], False
    for name in names or CHECKS:
        tool, *arguments = CHECKS[name]
        print(f"== {name}: {' '.join(CHECKS[name])}", flush=True)
        started = time.perf_counter()
        passed = subprocess.run([str(scripts / tool), *arguments], check=False).returncode == 0
        seconds = time.perf_counter() - started
        summary.append(f"{'passed' if passed else 'FAILED'}  {name}  ({seconds:.0f} s)")
        failed |= not passed
    print("==", *summary, sep="\n")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
