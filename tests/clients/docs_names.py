"""Names in the documents that the reference pages do not have: routes, commands with their flags, metrics.

`docs_console.py` reads every page with it. The pages of docs/reference/ are written from the code, so a name that they lack is one that does
not exist, or not any more.
"""

import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
REFERENCE = ROOT / "docs" / "reference"
# Pages about what is not there, about bytes, and about the past.
LEFT_OUT = re.compile(r"docs/(reference|benchmarks|releases)/|docs/(format|ledger)\.md|docs/operations/command-line\.md")
# Routes that the pages name because they are missing.
NOT_SERVED = {"sys/raw", "sys/pprof", "sys/internal/inspect/*", "sys/policies/detailed/acl", "sys/renew", "sys/revoke*"}
# Metrics of each mount are made as mounts are asked, and the tables on PostgreSQL have such names too.
NO_METRICS = ("vault_route_", "kallisto_store")
ROUTE = re.compile(r"(?<![\w/.{$-])((?:sys|identity|auth/token)/[^\s`,|&'\"\\]*)")
METRIC = re.compile(r"(?<![\w./-])((?:kallisto|vault)_[a-z0-9_]+[a-z0-9])(_?\*|_[A-Z])?")


def page(name):
    return (REFERENCE / name).read_text()


class Names:
    """What the reference pages have."""

    def __init__(self):
        self.routes = [pattern(it) for it in re.findall(r"^\| `([^`]+)`", page("routes.md"), re.M)]
        self.metrics = set(re.findall(r"(?:kallisto|vault)_[a-z0-9_]+", page("metrics.md")))
        self.flags, self.common, command = {}, {"h", "help"}, None
        for line in page("commands.md").split("\n"):
            if line.startswith("## "):
                found = re.match(r"## `kallisto (.*)`", line)
                command = found and found.group(1)
                if command:
                    self.flags[command] = set()
            elif line.startswith("| `-"):
                flags = re.findall(r"`-([\w-]+)", line.split("|")[1])
                (self.flags[command] if command else self.common).update(flags)

    def unknown(self, name, text):
        """The names of a page that nothing has."""
        if LEFT_OUT.search(name):
            return []
        spans = re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", text, flags=re.S))
        typed = re.findall(r"^ *\$ (?:[A-Z_]+=\S+ )*(kallisto [^|<>#$()\n]*)", text, re.M)
        routes = {it for span in spans for it in ROUTE.findall(span) if not self.has_route(it)}
        commands = [self.unknown_in(it) for it in [*spans, *typed] if it.startswith("kallisto ")]
        metrics = {it + more for it, more in METRIC.findall(text) if not self.has_metric(it, more)}
        return [*sorted(routes), *(it for it in commands if it), *sorted(metrics)]

    def has_route(self, text):
        path = re.sub(r"[?\[].*", "", text).rstrip("/;.")
        if path in NOT_SERVED or any(it in path for it in "+{…<(") or ".." in path:
            return True
        if "*" in path:
            return any(route.startswith(path.split("*")[0]) for route, _ in self.routes)
        return any(whole.fullmatch(path) or route.startswith(path + "/") for route, whole in self.routes)

    def has_metric(self, name, more):
        # Crates have one underscore (`kallisto_ldap`), metrics more.
        if name.startswith(NO_METRICS) or name.count("_") < 2:
            return True
        if more:  # A family of metrics.
            return any(it.startswith(name) for it in self.metrics)
        return name in self.metrics or re.sub(r"_(bucket|count|sum)$", "", name) in self.metrics

    def unknown_in(self, command):
        """What is wrong with a command, or nothing."""
        words = command.split()[1:]
        known = [n for n in range(1, len(words) + 1) if " ".join(words[:n]) in self.flags]
        if not known:
            begun = ""
            for word in words:
                if not re.fullmatch(r"[a-z][a-z-]*[a-z]", word):
                    break
                begun += f"{word} "
                if not any(f"{it} ".startswith(begun) for it in self.flags):
                    return command
            return ""
        name = " ".join(words[: known[-1]])
        if name == "ssh":  # What follows the host is for `ssh` itself.
            return ""
        given = [it.group(1) for word in words[known[-1]:] if (it := re.match(r"--?([a-z][\w-]*)", word))]
        wrong = [it for it in given if it not in self.flags[name] | self.common]
        return f"{command.strip()} (no flag {', '.join(wrong)})" if wrong else ""


def pattern(route):
    """A route as it is listed, and an expression for the paths that it stands for."""
    whole = "/".join(".*" if it.endswith("..}") else "[^/]+" if it.startswith("{") else re.escape(it) for it in route.split("/"))
    return route, re.compile(whole.replace("/.*", "(/.*)?"))
