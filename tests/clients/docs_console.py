#!/usr/bin/env python3
"""Runs the `console` blocks of the documents against the binary and compares what they show.

    KALLISTO=target/debug/kallisto tests/clients/docs_console.py [--update] [PAGE...]

A page is one session: a shell in an empty folder that is also its home, with ports of its own (each port of the page is moved by the same
number). Lines that begin with `$ ` are typed, also where they go on with a backslash or a here-document; what follows is what has to come
out. A line `...` stands for any lines. Identifiers, times, tokens and keys may differ. A command without output below it only has to succeed.
A command that ends in `&` runs on; it has to listen before the next one is typed.

What a page takes for granted, such as a server, is typed first: lines of `<!-- given:` to `-->`, each of which has to succeed. With
`<!-- given, needs PROGRAM...:` they are left out where a program is missing.

A page that needs `not-root` (PostgreSQL does not run as root) is typed as `nobody` where root runs this. PostgreSQL's programs are found where
Debian has them.

Every page of docs/ with such blocks is read. In front of a block, `<!-- not run: WHY -->` leaves it out and `<!-- needs: PROGRAM... -->` leaves it out where one is missing, loudly.
`--update` writes what came out into blocks without `...`.

`hcl` blocks are read too, on every page: policies by `sys/policies/check` of a dev server, everything else by `operator validate-config`. No error and no
warning is allowed. `json` and `yaml` blocks have to parse, and routes, commands and metrics that a page names have to exist (`docs_names.py`). Commands in a block of another kind (`sh`, or no kind) need a `not run` note, since nothing runs them.
"""

import contextlib
import json
import os
import pathlib
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import time

from docs_names import Names

try:
    import yaml
except ImportError:
    yaml = None

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = ["README.md", *sorted(str(p.relative_to(ROOT)) for p in (ROOT / "docs").rglob("*.md") if "```console" in p.read_text())]
# Pages whose blocks are read. Decisions tell what was decided, also in forms that were refused.
READ_PAGES = ["README.md", "SECURITY.md", "CONTRIBUTING.md", *sorted(
    str(p.relative_to(ROOT)) for p in (ROOT / "docs").rglob("*.md") if "decisions" not in p.parts)]
GIVEN = re.compile(r"<!-- given(?:, needs ([\w -]+))?:\n(.*?)\n-->", re.S)
NOT_RUN = "<!-- not run:"
COMMAND_SECONDS = 60
NOBODY = 65534
LISTEN_SECONDS = 60
# By how much ports of a page are moved: to where the system takes no port of a client from, nor another walk one of a server.
SHIFTS = range(54_621, 56_500)
PORT = re.compile(r"(?<=:)(8\d{3}|6379)\b")
# What differs from run to run, each with what stands for it.
VOLATILE = [
    (re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"), "UUID"),
    (re.compile(r"\bhv[sbr]\.[A-Za-z0-9_.-]+"), "TOKEN"),
    (re.compile(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?( ?[+-]\d{4})?Z?( UTC)?\b"), "TIME"),
    (re.compile(r"\b[A-Z][a-z]{2} +\d+ \d\d:\d\d:\d\d \d{4}\b"), "TIME"),
    (re.compile(r"\b([0-9a-f]{2}:){8,}[0-9a-f]{2}\b"), "SERIAL"),
    (re.compile(r"(?<![A-Za-z0-9+/])[A-Za-z0-9+/_-]{40,}={0,2}"), "KEY"),
    (re.compile(r"(?<![A-Za-z0-9])[A-Za-z0-9]{20,}(?![A-Za-z0-9])"), "ID"),
    (re.compile(r"(?<=^password)( +)\S{20}$"), r"\1PASSWORD"),
    (re.compile(r"\bv_root_\w+"), "USER"),
    (re.compile(r"\b1[789]\d{8}\b"), "SECONDS"),
    (re.compile(r"\S*/\.vault-token"), "~/.vault-token"),
    (re.compile(r"vault-cluster-[0-9a-f]{8}"), "CLUSTER"),
    (re.compile(r"kallisto-cluster-[0-9a-f]+"), "CLUSTER"),
    (re.compile(r"\b\d+[hms](\d+[ms])*\b"), lambda it: span(it.group())),
    (re.compile(r"-{3,}"), "---"),
    (re.compile(r"\s+"), " "),
]


def span(text):
    """A time to the minute: of one that is left some seconds may be gone."""
    secs = sum(int(count) * {"h": 3600, "m": 60, "s": 1}[unit] for count, unit in re.findall(r"(\d+)([hms])", text))
    return f"SPAN{(secs + 5) // 60}"


def normal(line):
    for pattern, word in VOLATILE:
        line = pattern.sub(word, line)
    return line.strip()


def matches(expected, actual):
    """Whether lines are as expected, where `...` stands for any lines."""
    if not expected:
        return not actual
    if expected[0].strip() == "...":
        return any(matches(expected[1:], actual[at:]) for at in range(len(actual) + 1))
    return bool(actual) and normal(expected[0]) == normal(actual[0]) and matches(expected[1:], actual[1:])


def steps_of(block):
    """Pairs of a command, as its lines, and the lines that follow it."""
    steps, at = [], 0
    while at < len(block):
        if not block[at].startswith("$ "):
            if not steps:
                raise SystemExit(f"a console block begins with no command: {block[at]!r}")
            steps[-1][1].append(block[at])
            at += 1
            continue
        command = [block[at]]
        ends = re.search(r"<<-?'?(\w+)'?", block[at])
        while (ends and command[-1] != ends.group(1)) or (not ends and command[-1].endswith("\\")):
            at += 1
            command.append(block[at])
        steps.append((command, []))
        at += 1
    return steps


def free_shift(ports):
    """A number by which every port of a page can be moved to one that is free."""
    for attempt in range(200):
        shift = SHIFTS[(os.getpid() * 7 + attempt * 101) % len(SHIFTS)]
        try:
            for port in ports:
                with socket.socket() as listener:
                    listener.bind(("127.0.0.1", port + shift))
        except OSError:
            continue
        return shift
    raise SystemExit("no free ports")


class Session:
    def __init__(self, binary, ports, as_nobody=False):
        self.folder = tempfile.mkdtemp(prefix="kallisto-docs-")
        who = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if as_nobody else {}
        if as_nobody:
            os.chown(self.folder, NOBODY, NOBODY)
        bin_folder = pathlib.Path(self.folder) / ".bin"
        bin_folder.mkdir()
        (bin_folder / "kallisto").symlink_to(binary)
        self.shift = free_shift(ports)
        kept = {name: os.environ[name] for name in ("LANG", "TERM") if name in os.environ}
        environment = {**kept, "HOME": self.folder, "PATH": f"{bin_folder}:{os.environ['PATH']}", "TZ": "UTC",
                       "KALLISTO_DEV_LISTEN_ADDRESS": f"127.0.0.1:{8200 + self.shift}"}
        self.shell = subprocess.Popen(
            ["bash", "--norc", "--noprofile"], cwd=self.folder, env=environment, start_new_session=True, **who,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.servers = 0

    def moved(self, text, by=1):
        if by > 0:
            return PORT.sub(lambda m: str(int(m.group()) + self.shift), text)
        return re.sub(r"(?<=:)\d{5}\b", lambda m: str(int(m.group()) - self.shift)
                      if PORT.fullmatch(":" + str(int(m.group()) - self.shift), 1) else m.group(), text)

    def run(self, lines):
        text = "\n".join([lines[0][2:], *lines[1:]])
        text = self.moved(text)
        if text.rstrip().endswith("&"):
            self.servers += 1
            log = f".server{self.servers}"
            self.send(f"{text.rstrip()[:-1]} >{log} 2>{log}.err &\n")
            return self.wait_for(pathlib.Path(self.folder) / log)
        return self.send(text)

    def wait_for(self, log):
        """The greeting of a server, once it listens."""
        end = time.time() + LISTEN_SECONDS
        while time.time() < end:
            if re.search("Api Address|Seal:", log.read_text() if log.exists() else ""):
                break
            time.sleep(0.1)
        else:
            return "\n".join([log.read_text(), pathlib.Path(f"{log}.err").read_text(), "(does not listen)"]), 1
        addresses = re.findall(r"(?:Api Address: https?://|Listener: )([\d.]+):(\d+)", log.read_text())
        for host, port in addresses:
            while time.time() < end:
                try:
                    socket.create_connection((host, int(port)), 1).close()
                    break
                except OSError:
                    time.sleep(0.1)
        return self.moved(log.read_text(), -1), 0

    def send(self, text):
        mark = f"--end-{time.monotonic_ns()}--"
        self.shell.stdin.write(f"{text}\ndocs_code=$?; echo; echo {mark}$docs_code\n".encode())
        self.shell.stdin.flush()
        output, end = b"", time.time() + COMMAND_SECONDS
        while not re.search(rf"{mark}\d+\n".encode(), output):
            ready, _, _ = select.select([self.shell.stdout], [], [], max(0, end - time.time()))
            if not ready:
                return output.decode(errors="replace") + f"\n(nothing after {COMMAND_SECONDS} s)", 1
            read = os.read(self.shell.stdout.fileno(), 65536)
            if not read:
                return output.decode(errors="replace") + "\n(the shell is gone)", 1
            output += read
        text, code = re.match(rf"(.*?)\n?{mark}(\d+)\n", output.decode(errors="replace"), re.S).groups()
        return self.moved(text, -1), 0 if code == "0" else int(code)

    def close(self):
        # A PostgreSQL is in a session of its own; its file names it.
        for file in pathlib.Path(self.folder).glob("*/postmaster.pid"):
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(file.read_text().split()[0]), signal.SIGQUIT)
        for how in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(self.shell.pid, how)
            except ProcessLookupError:
                break
            time.sleep(0.3)
        self.shell.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


def is_there(need, binary):
    """Whether what a block needs is there: a program, or `not-root`: that somebody else than root may run the binary."""
    if need != "not-root":
        return shutil.which(need) is not None
    return os.geteuid() != 0 or may_nobody(binary)


def may_nobody(binary):
    """Whether `nobody` may run the binary, whose folder may be root's alone."""
    try:
        return subprocess.run([binary, "version"], user=NOBODY, group=NOBODY, extra_groups=[], capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def blocks_of(lines):
    """Where the blocks of a page begin and end, with the kind of each and the note in front of it."""
    found, at, note = [], 0, ""
    while at < len(lines):
        line = lines[at].strip()
        if line.startswith("```"):
            end = next(i for i in range(at + 1, len(lines)) if lines[i].strip() == "```")
            found.append((at + 1, end, note, line[3:]))
            at, note = end + 1, ""
            continue
        note = line if line.startswith("<!--") else (note if not line else "")
        at += 1
    return found


def complaint(session, kind, text):
    """What is wrong with a block that is read and not run, or nothing."""
    if kind == "hcl" and re.search(r'^ *path "', text, re.M):
        (pathlib.Path(session.folder) / "block.json").write_text(json.dumps({"policy": text}))
        output, _ = session.send("kallisto write -format=json sys/policies/check @block.json")
        try:
            data = json.loads(output)["data"]
        except (ValueError, KeyError):
            return output
        # The server that looks has none of the reader's mounts.
        found = data["errors"] + [it for it in data["warnings"] if it["kind"] not in ("no_mount", "kv_v2_path")]
        return json.dumps(found) if found else None
    if kind == "hcl" and "charset" not in text:
        # A part of a configuration is completed to a whole one.
        rest = "" if re.search(r"^storage ", text, re.M) else '\nstorage "inmem" {}\n'
        rest += "" if re.search(r'^listener "tcp"', text, re.M) else 'listener "tcp" { tls_disable = true }\n'
        (pathlib.Path(session.folder) / "block.hcl").write_text(text + rest)
        # What a container's environment has, and keys that a block takes from there.
        names = ["VAULT_K8S_NAMESPACE", "VAULT_K8S_POD_NAME", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT", *re.findall(r"env://(\w+)", text)]
        environment = " ".join(f"{it}={'0123456789abcdef' * 4 if it.endswith('KEY') else '443' if it.endswith('PORT') else 'kallisto'}" for it in names)
        output, code = session.send(f"{environment} kallisto operator validate-config -config=block.hcl 2>&1")
        return output if code or "warning" in output.lower() else None
    if kind == "json":
        try:
            json.loads(text)
        except ValueError as error:
            return str(error)
    if kind == "yaml" and yaml:
        try:
            list(yaml.safe_load_all(text))
        except yaml.YAMLError as error:
            return str(error)
    return None


def read_pages(binary, pages):
    """The blocks of pages that are read and not run: how many, and how many are wrong."""
    session, names, read, wrong = Session(binary, {8200, 8201}), Names(), 0, 0
    try:
        session.run(["$ kallisto server -dev -dev-root-token-id=root -dev-no-store-token &"])
        session.run(["$ export VAULT_ADDR=http://127.0.0.1:8200 VAULT_TOKEN=root"])
        for page in pages:
            lines = (ROOT / page).read_text().split("\n")
            for name in names.unknown(page, "\n".join(lines)):
                wrong += 1
                print(f"{page}: the reference has no {name}")
            for start, end, note, kind in blocks_of(lines):
                if kind == "console" or note.startswith(NOT_RUN):
                    continue
                text = textwrap.dedent("\n".join(lines[start:end])) + "\n"
                read += kind in ("hcl", "json", "yaml")
                found = complaint(session, kind, text)
                if kind in ("sh", "") and re.match(r"\$ |kallisto |bao ", text):
                    found = "commands that nothing runs: make it a `console` block, or say why not (`<!-- not run: WHY -->`)"
                if found:
                    wrong += 1
                    print(f"{page}:{start}: {found}")
    finally:
        session.close()
    print(f"{'ok ' if not wrong else ''}{read} blocks read, {wrong} wrong")
    return read, wrong


def run_page(binary, page, update):
    path = ROOT / page
    lines = path.read_text().split("\n")
    ports = {int(port) for port in PORT.findall("\n".join(lines))} | {8200, 8201}
    blocks = [block[:3] for block in blocks_of(lines) if block[3] == "console" and not block[2].startswith(NOT_RUN)]
    if not blocks:
        print(f"--- {page}: nothing that can run here")
        return 0, 0
    as_nobody = os.geteuid() == 0 and any("not-root" in block[2] for block in blocks) and may_nobody(binary)
    session, wrong, ran, changes = Session(binary, ports, as_nobody), 0, 0, []
    try:
        for needs, given in GIVEN.findall("\n".join(lines)):
            for line in given.split("\n") if all(is_there(it, binary) for it in needs.split()) else []:
                output, code = session.run([line])
                wrong += bool(code)
                print(f"{page}: given {line}\n  exit code {code}: {output}" if code else "", end="")
        for start, end, note in blocks:
            needs = re.match(r"<!-- needs: ([\w -]+) -->", note)
            missing = [it for it in (needs.group(1).split() if needs else []) if not is_there(it, binary)]
            if missing:
                print(f"*** SKIPPED: {page}:{start}: not there: {', '.join(missing)}")
                continue
            written = []
            for command, expected in steps_of(lines[start:end]):
                output, code = session.run(command)
                ran += 1
                actual = output.rstrip("\n").split("\n") if output.strip() else []
                has_gap = any(line.strip() == "..." for line in expected)
                written += command + (expected if has_gap or (update and not expected and not actual) else actual)
                shown = expected and not (update and not has_gap)
                if (shown and not matches(expected, actual)) or (code and not expected and not update):
                    wrong += 1
                    print(f"{page}:{start}: {command[0]}\n  exit code {code}, expected:")
                    print("".join(f"    {line}\n" for line in expected) + "  and got:")
                    print("".join(f"    {line}\n" for line in actual), end="")
            changes.append((start, end, written))
    finally:
        session.close()
    if update:
        for start, end, written in reversed(changes):
            lines[start:end] = written
        path.write_text("\n".join(lines))
    print(f"{'ok ' if not wrong else ''}{page}: {ran} commands, {wrong} wrong")
    return ran, wrong


def main():
    binary = os.environ.get("KALLISTO")
    if not binary:
        raise SystemExit("KALLISTO names no binary")
    words = [word for word in sys.argv[1:] if word != "--update"]
    binary = str(pathlib.Path(binary).resolve())
    os.environ["PATH"] += "".join(f":{it}" for it in sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin"), reverse=True))
    results = [run_page(binary, page, "--update" in sys.argv) for page in words or PAGES]
    if not sum(ran for ran, _ in results) and not words:
        raise SystemExit("no block was run")
    results.append(read_pages(binary, words or READ_PAGES))
    sys.exit(1 if any(wrong for _, wrong in results) else 0)


if __name__ == "__main__":
    main()
