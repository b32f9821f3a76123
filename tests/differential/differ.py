#!/usr/bin/env python3
"""Sends the same requests to a real `bao server -dev` and to `kallisto server -dev`, compares every
answer, and holds what differs against the table of what is meant to (`differences.txt`).

Standard library only. `run.sh` gets `bao` from PyPI; the streams are `streams/*.txt` and what
`sweep.py` makes of `routes.txt`.

Exit codes: 0 every difference is listed and every listed one occurred; 1 not so; 2 wrong use, or a
server did not start. Without `bao` it says so loudly and ends with 0.
"""

import argparse
import collections
import json
import pathlib
import sys
import tempfile
import time

import compare
import servers
import stream
import sweep
from table import Table

HERE = pathlib.Path(__file__).resolve().parent
SHOWN = 300


class Tally:
    """What became of the requests of one stream."""

    def __init__(self, name):
        self.name = name
        self.requests = self.equal = self.meant = 0
        self.endpoints = set()
        self.unlisted = []


class Run:
    """One pass of one stream over a pair of servers."""

    def __init__(self, name, pair, table):
        self.pair = pair
        self.table = table
        self.tally = Tally(name)
        self.seen = collections.Counter()

    def all(self, steps):
        for step in steps:
            if isinstance(step, stream.Pause):
                time.sleep(step.seconds)
            else:
                self.one(step)
        return self.tally

    def one(self, request):
        answers = [send(server, request) for server in self.pair]
        label = request.label()
        self.seen[label] += 1
        if self.seen[label] > 1:
            label += f" ~{self.seen[label]}"
        for server, answer in zip(self.pair, answers):
            for name, place in request.keep:
                server.captured[name] = find(answer.body, place) or f"nothing-kept-as-{name}"
        self.judge(label, request, answers)

    def judge(self, label, request, answers):
        tally = self.tally
        tally.requests += 1
        tally.endpoints.add((request.method, request.path.partition("?")[0]))
        found = compare.places(*answers, [server.captured for server in self.pair])
        open_places = []
        for place, theirs, ours in found:
            if self.table.reason(tally.name, label, place) is None and not servers.is_of_storage(label, place):
                open_places.append((place, theirs, ours))
        if open_places:
            tally.unlisted.append((label, request, open_places))
        elif found:
            tally.meant += 1
        else:
            tally.equal += 1


def send(server, request):
    """Sends a request with what this server's answers gave for the names in it."""
    known = {f"<{name}>": value for name, value in server.captured.items()}

    def fill(text):
        for name, value in known.items():
            text = text.replace(name, value)
        return text

    headers = {name: fill(value) for name, value in request.headers}
    if request.token is not None:
        headers["X-Vault-Token"] = fill(request.token)
    path = fill(request.path)
    body = None if request.body is None else fill(request.body).encode()
    return server.ask(request.method, path if path.startswith("/") else f"/v1/{path}", headers, body)


def find(body, place):
    """The text at a place such as `data.keys.0`, if there is one."""
    try:
        value = json.loads(body)
        for step in place.split("."):
            value = value[int(step)] if isinstance(value, list) else value[step]
    except (ValueError, KeyError, IndexError, TypeError):
        return None
    return value if isinstance(value, str) else json.dumps(value)


def load():
    """Every stream by name."""
    streams = {}
    for path in sorted((HERE / "streams").glob("*.txt")):
        streams[path.stem] = stream.parse(path.read_text(), path.name)
    streams["sweep"] = (sweep.steps((HERE / "routes.txt").read_text()), True)
    return streams


def run(streams, table, arguments):
    """Runs the streams: those that want servers of their own after the others."""
    tallies = []
    with tempfile.TemporaryDirectory(prefix="differential-") as folder:
        folder = pathlib.Path(folder)
        shared = [name for name, (_, fresh) in streams.items() if not fresh]
        groups = [("shared", shared)] if shared else []
        groups += [(name, [name]) for name, (_, fresh) in streams.items() if fresh]
        for group, names in groups:
            with servers.pair(arguments.bao, arguments.kallisto, folder / group) as pair:
                for name in names:
                    tallies.append(Run(name, pair, table).all(streams[name][0]))
                for server in pair:
                    if server.process.poll() is not None:
                        raise SystemExit(f"{server.name} is gone:\n{server.log.read_text()[-2000:]}")
    return tallies


def short(value):
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= SHOWN else text[:SHOWN] + "…"


def report(tallies, unmet, seconds):
    """Says it to people."""
    for tally in tallies:
        for label, request, found in tally.unlisted:
            print(f"DIFFERENT {tally.name}: {label}  {(request.body or '')[:SHOWN]}")
            for place, theirs, ours in found:
                print(f"    {place}\n      theirs {short(theirs)}\n      ours   {short(ours)}")
    for number, section, place in unmet:
        print(f"GONE differences.txt:{number}: {section}: {place} does not occur: take it out")
    for tally in tallies:
        word = "FAIL" if tally.unlisted else "ok"
        print(
            f"{word} {tally.name}: {tally.requests} requests, {tally.equal} equal, "
            f"{tally.meant} differ by design, {len(tally.unlisted)} not listed"
        )
    endpoints = set().union(*(tally.endpoints for tally in tallies))
    total = {part: sum(getattr(tally, part) for tally in tallies)
             for part in ("requests", "equal", "meant")}
    unlisted = sum(len(tally.unlisted) for tally in tallies)
    print(
        f"{total['requests']} requests, {len(endpoints)} methods and paths: {total['equal']} equal, "
        f"{total['meant']} differ by design, {unlisted} not listed, {len(unmet)} gone; {seconds:.1f} s"
    )


def report_json(tallies, unmet, seconds):
    """Says it to programs."""
    print(json.dumps({
        "seconds": round(seconds, 1),
        "streams": [
            {
                "name": tally.name,
                "requests": tally.requests,
                "endpoints": len(tally.endpoints),
                "equal": tally.equal,
                "by_design": tally.meant,
                "not_listed": [
                    {"request": label, "body": request.body,
                     "places": [dict(zip(("place", "theirs", "ours"), each)) for each in found]}
                    for label, request, found in tally.unlisted
                ],
            }
            for tally in tallies
        ],
        "gone": [dict(zip(("line", "stream", "place"), each)) for each in unmet],
    }, indent=1))


def draft(tallies):
    """Lines for the table, to be given a reason or a fix."""
    for tally in tallies:
        if tally.unlisted:
            print(f"section {tally.name}")
        for label, _, found in tally.unlisted:
            print(f"WHY | {label} | {' '.join(place for place, _, _ in found)}")


def arguments(streams):
    parser = argparse.ArgumentParser(
        description="Compares kallisto's answers with those of a real OpenBao server.",
        epilog="exit codes: 0 as listed, 1 not as listed, 2 wrong use or no server",
    )
    parser.add_argument("--bao", required=True, metavar="FILE", help="the bao program")
    parser.add_argument("--kallisto", required=True, metavar="FILE", help="the kallisto program")
    parser.add_argument("--only", action="append", choices=sorted(streams), metavar="STREAM",
                        help=f"this stream only; may be repeated: {', '.join(sorted(streams))}")
    parser.add_argument("--table", default=HERE / "differences.txt", type=pathlib.Path,
                        metavar="FILE", help="the table of what is meant to differ")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="the report as JSON")
    form.add_argument("--draft", action="store_true",
                      help="lines for the table for what is not listed")
    return parser.parse_args()


def main():
    streams = load()
    given = arguments(streams)
    for name in ("bao", "kallisto"):
        path = pathlib.Path(getattr(given, name)).resolve()
        if not path.exists():
            if name == "bao":
                print(f"*** SKIPPED: differential: there is no bao at {path}")
                return 0
            print(f"there is no kallisto at {path}", file=sys.stderr)
            return 2
        setattr(given, name, str(path))
    if given.only:
        streams = {name: steps for name, steps in streams.items() if name in given.only}
    table = Table(given.table.read_text(), given.table.name)
    start = time.monotonic()
    try:
        tallies = run(streams, table, given)
    except SystemExit as error:
        print(error, file=sys.stderr)
        return 2
    unmet = list(table.unmet(streams))
    seconds = time.monotonic() - start
    if given.draft:
        draft(tallies)
    elif given.json:
        report_json(tallies, unmet, seconds)
    else:
        report(tallies, unmet, seconds)
    return 1 if unmet or any(tally.unlisted for tally in tallies) else 0


if __name__ == "__main__":
    sys.exit(main())
