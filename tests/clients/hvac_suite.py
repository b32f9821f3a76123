"""hvac's own integration tests, written for Vault, against Kallisto: hvac_suite.py KALLISTO.

They come with hvac's source package on PyPI and start a server of their own for each class, by the name `vault`. A line `ok` a test that
passes. What is expected to fail stands in hvac_suite_differences.txt with its reason; a test that fails and is not there, or is there and
passes, fails the run. Where the reason begins with "sometimes", both are right. Needs pytest and what the suite imports in the Python that runs this.
"""

import fnmatch
import os
import pathlib
import subprocess
import sys
import tarfile
import tempfile
import xml.etree.ElementTree as ElementTree

HVAC = "2.4.0"
SECONDS_MAX = 500
HERE = pathlib.Path(__file__).resolve().parent


def differences():
    """Pairs of a pattern of test names and the reason why they fail."""
    lines = (HERE / "hvac_suite_differences.txt").read_text().splitlines()
    pairs = [line.split(" | ", 1) for line in lines if line and not line.startswith("#")]
    return [(pattern.strip(), reason.strip()) for pattern, reason in pairs]


def unpack(work):
    """The suite's folder."""
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", ":all:", f"hvac=={HVAC}", "-d", work]
    subprocess.run(command, check=True, timeout=180)
    with tarfile.open(f"{work}/hvac-{HVAC}.tar.gz") as package:
        package.extractall(work, filter="data")
    return pathlib.Path(work) / f"hvac-{HVAC}"


def outcomes(suite, kallisto):
    """Name, outcome and first words of each test."""
    binaries = suite / "bin"
    binaries.mkdir()
    (binaries / "vault").symlink_to(kallisto)
    (suite / "tests/config_files/generated").mkdir(exist_ok=True)
    # The package's own copy of hvac is what its tests mean.
    environment = {**os.environ, "PATH": f"{binaries}:{os.environ['PATH']}", "PYTHONPATH": str(suite)}
    for name in [name for name in environment if name.startswith(("VAULT_", "BAO_"))]:
        del environment[name]
    report = suite / "report.xml"
    command = [sys.executable, "-m", "pytest", "-o", "addopts=", "-q", "-W", "ignore", "--tb=short", f"--junitxml={report}", "tests/integration_tests"]
    subprocess.run(command, cwd=suite, env=environment, stdout=subprocess.DEVNULL, timeout=SECONDS_MAX)
    for case in ElementTree.parse(report).iter("testcase"):
        name = f"{case.get('classname').removeprefix('tests.integration_tests.')}.{case.get('name')}"
        bad = [child for child in case if child.tag in ("failure", "error")]
        skipped = any(child.tag == "skipped" for child in case)
        yield name, "failed" if bad else "skipped" if skipped else "passed", (bad[0].get("message") or "")[:300] if bad else ""


def main():
    kallisto = pathlib.Path(sys.argv[1]).resolve()
    known, used, wrong, counts = differences(), set(), 0, {"passed": 0, "failed": 0, "skipped": 0}
    with tempfile.TemporaryDirectory() as work:
        for name, outcome, message in outcomes(unpack(work), kallisto):
            counts[outcome] += 1
            expected, reason = next((pair for pair in known if fnmatch.fnmatch(name, pair[0])), (None, ""))
            if reason.startswith("sometimes"):
                used.add(expected)
                expected = None if outcome == "passed" else expected
            if outcome == "passed" and expected is None:
                print(f"ok {name}")
            elif outcome == "passed":
                wrong += 1
                print(f"FAIL {name} passes, but the list of differences says {expected}")
            elif outcome == "failed" and expected is None:
                wrong += 1
                print(f"FAIL {name}: {message}")
            elif outcome == "failed":
                used.add(expected)
    for pattern, reason in known:
        if pattern not in used:
            wrong += 1
            print(f"FAIL the list of differences has {pattern} ({reason}), which no test is")
    print(f"{counts['passed']} passed, {counts['failed']} failed as listed, {counts['skipped']} skipped by the suite itself")
    sys.exit(1 if wrong or counts["passed"] < 400 else 0)


main()
