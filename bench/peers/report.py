"""From rows to the table of docs/benchmarks.md and to pictures.

Rows that Kallisto loses are shown as the others are, with the ratio below one. A ratio is always such that more
than one is better for Kallisto.
"""

import os
import pathlib
import platform
import subprocess
import time

import driving
from peers import FLOOR, FLOOR_COMPACT, FLOOR_VERSIONS

BEGIN = "<!-- peers:begin (written by bench/peers/run.sh) -->"
END = "<!-- peers:end -->"
# What Kallisto is called, without an audit device, in the table of those that have one.
AUDIT_OFF = "Kallisto, no audit"
# The same with a device of `format=compact`.
AUDIT_COMPACT = "Kallisto, compact"
COLOURS = {"Kallisto": "#3465a4", "Redis": "#cc0000", "nginx": "#4e9a06", "OpenBao": "#c4a000",
           "etcd": "#75507b", FLOOR: "#babdb6", FLOOR_VERSIONS: "#888a85", FLOOR_COMPACT: "#888a85"}


def facts(options, bench, seconds):
    def told(*command, env=None):
        try:
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=env,
                                  timeout=20)
            return done.stdout.decode().strip().splitlines()[0]
        except (OSError, IndexError, subprocess.SubprocessError):
            return "?"
    libraries = {**os.environ, "LD_LIBRARY_PATH": str(bench.cache / "root/usr/lib/x86_64-linux-gnu")}
    model = "?"
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.split(":", 1)[1].strip()
            break
    return {
        "commit": told("git", "-C", options.root, "rev-parse", "--short", "HEAD"),
        "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        "form": "quick" if options.quick else "full",
        "only": options.only, "seconds": round(seconds), "rounds": options.rounds,
        "load_seconds": options.seconds, "load_average": os.getloadavg()[0],
        "processor": model, "cores": os.cpu_count(), "kernel": platform.release(),
        "Redis": told(str(bench.cache / "root/usr/bin/redis-server"), "--version", env=libraries),
        "nginx": told(str(bench.cache / "root/usr/sbin/nginx"), "-v", env=libraries),
        "etcd": told(str(bench.cache / "root/usr/bin/etcd"), "--version"),
        "OpenBao": told(str(bench.cache / "venv/bin/bao"), "version"),
    }


def ratio(row, who):
    """How much better Kallisto is than `who`; below one, worse."""
    ours, theirs = row["values"].get("Kallisto"), row["values"].get(who)
    if not ours or not theirs:
        return None
    return ours / theirs if row["better"] == "more" else theirs / ours


# What the name of a row says when many clients start at once; such rows have a picture of their own.
HERD = " clients starting at once, "


def in_flight(depth):
    """How many requests of a connection are under way, in the name of a row."""
    return "1 request in flight" if depth == 1 else f"{depth} pipelined"


def is_herd(row):
    return HERD in row["name"]


def is_of_connections(row):
    """Whether it stands on the page of connections; so do those that start at once, but for the fewest and the most."""
    is_middle = is_herd(row) and not row["name"].startswith(("1,000 ", "10,000 "))
    return is_middle or row["table"] == "connections"


def without_result(rows):
    """A line for each server that has no result, and why."""
    return [f"- No result: {row['name']}, {who}: {why.splitlines()[0][:200]}"
            for row in rows for who, why in row["reasons"].items()]


def table(rows):
    """The rows of one table as Markdown."""
    others = [who for who in (AUDIT_COMPACT, AUDIT_OFF, "Redis", "nginx", "OpenBao", "etcd", FLOOR,
                              FLOOR_VERSIONS, FLOOR_COMPACT)
              if any(who in row["values"] or who in row["reasons"] for row in rows)]
    lines = [
        "| | unit | Kallisto | " + " | ".join(others) + " |",
        "|---|---|---:|" + "---:|" * len(others),
    ]
    for row in rows:
        cells = []
        for who in ["Kallisto", *others]:
            value = row["values"].get(who)
            if value is None:
                cells.append("no result" if who in row["reasons"] else "")
                continue
            text = f"{value:,.0f}" if value >= 100 else f"{value:,.1f}"
            better = ratio(row, who) if who != "Kallisto" else None
            cells.append(text if better is None else f"{text} ({better:.2f})")
        lines.append(f"| {row['name']} | {row['unit']} | " + " | ".join(cells) + " |")
    return lines


def run_line(facts_):
    """One paragraph: which commit, when, on what, with which peers."""
    return (
        f"Commit {facts_['commit']}, {facts_['date']}, `bench/peers/run.sh"
        f"{' --quick' if facts_['form'] == 'quick' else ''}`: {facts_['rounds']} round(s), median; loads of "
        f"{facts_['load_seconds']} s; {facts_['cores']} cores of {facts_['processor']}, kernel "
        f"{facts_['kernel']}; each server on one core, the load on another; load average at the end "
        f"{facts_['load_average']:.1f}. {facts_['Redis'].split(' sha')[0]}; {facts_['nginx']}; "
        f"{facts_['etcd']}; {facts_['OpenBao'].split(' (')[0]}.")


CONNECTIONS_PAGE = f"""# By connections and pipeline depth

Reads and writes of values of 128 bytes with few and many connections, and with 1 to 64 requests on their way on each, by
`bench/peers/run.sh`; [the benchmarks page](../benchmarks.md) says how. Loads are shorter than those of the main table, so single rows vary more.

{BEGIN}

{END}
"""


def connections_page(results):
    """The table of connections and depths, of every server."""
    rows = [row for row in results["rows"] if is_of_connections(row)]
    lines = [run_line(results["facts"]), "", *table(rows)]
    if missing := without_result(rows):
        lines += ["", *missing]
    return "\n".join(lines) + "\n"


def markdown(results):
    facts_, rows = results["facts"], results["rows"]
    lines = [
        run_line(facts_),
        "",
        "The number in brackets is how much better Kallisto is; below 1.00 it is worse. *The floor* is [a program](../bench/peers/floor) that does "
        "only what an encrypted store cannot do without: socket, protocol, hash table, one cipher, one log; with *versions*, each write reads, changes "
        "and seals the metadata of a secret and makes a record of its new version.",
        "",
        *table([row for row in rows if row["table"] == "main" and not is_of_connections(row)]),
    ]
    audited = [row for row in rows if row["table"] == "audit"]
    if audited:
        lines += ["", "With an audit device that writes every request and every answer to a file (`compact`: `format=compact`). *The floor* here makes the HMACs and the "
                  "records of a read, as long as Kallisto's, links them by their hashes and writes them before its reply leaves:", "",
                  *table(audited)]
    if any(row["table"] == "connections" for row in rows):
        lines += ["", "The same loads with 1 to 1,000 connections and at every depth are on "
                  "[a page of their own](benchmarks/connections.md)."]
    # The memory of fewer clients is in results.json.
    most = f"10,000{HERD}"
    largest = [f"{row['name'].removeprefix(most).removesuffix(': all served')}: {row['note']}"
               for row in rows if row.get("note") and row["name"].startswith(most)]
    notes = [f"- {row['name']}: {row['note']}." for row in rows
             if row.get("note") and not is_herd(row)]
    if largest:
        lines += ["", "While 10,000 clients that start at once are served: " + "; ".join(largest) + "."]
    notes += without_result([row for row in rows if not is_of_connections(row)])
    notes += [f"- No result: {who}: {why}" for who, why in results["skipped"].items()]
    if notes:
        lines += ["", *notes]
    return "\n".join(lines) + "\n"


def bars(title, rows):
    """Horizontal bars, each row scaled by its own largest value."""
    width, label, line = 1040, 510, 18
    height = 40 + sum((len(row["values"]) + 1) * line for row in rows)
    text = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
            'font-family="sans-serif" font-size="12">',
            f'<rect width="{width}" height="{height}" fill="white"/>',
            f'<text x="8" y="22" font-size="14">{title}</text>']
    y = 40
    for row in rows:
        most = max(row["values"].values(), default=1) or 1
        name = row["name"].replace("&", "&amp;").replace("<", "&lt;")
        text.append(f'<text x="8" y="{y + 13}">{name}</text>')
        for who, value in row["values"].items():
            length = max(1, (width - label - 190) * value / most)
            text.append(f'<rect x="{label + 60}" y="{y + 3}" width="{length:.0f}" height="{line - 5}" '
                        f'fill="{COLOURS.get(who, "#888888")}"/>')
            text.append(f'<text x="{label + 54}" y="{y + 13}" text-anchor="end">{who}</text>')
            text.append(f'<text x="{label + 66 + length:.0f}" y="{y + 13}">'
                        f'{value:,.0f} {row["unit"]}</text>')
            y += line
        y += line
    text.append("</svg>")
    return "\n".join(text) + "\n"


def write(results, text, root):
    folder = root / "docs/benchmarks"
    rates = [row for row in results["rows"] if row["better"] == "more" and row["table"] == "main"]
    pictures = {
        "peers-rates.svg": ("More is better", rates),
        "peers-herd.svg": ("Clients starting at once: time until all are served, less is better",
                           [row for row in results["rows"] if is_herd(row)]),
        "peers-costs.svg": ("Memory and start, less is better",
                            [row for row in results["rows"]
                             if row["better"] == "less" and not is_herd(row)]),
    }
    links = []
    for name, (title, rows) in pictures.items():
        if rows:
            (folder / name).write_text(bars(title, rows))
            links.append(f"![{title}](benchmarks/{name})")
    if any(row["table"] == "connections" for row in results["rows"]):
        page = folder / "connections.md"
        if not page.exists():
            page.write_text(CONNECTIONS_PAGE)
        driving.write_between(page, BEGIN, END, connections_page(results))
    driving.write_between(f"{root}/docs/benchmarks.md", BEGIN, END, text + "\n" + "\n\n".join(links) + "\n")
