#!/usr/bin/env python3
"""Reads the Grafana dashboard by Grafana's own types (grafana-foundation-sdk) and sees that nothing of it is lost on the way.

    tests/ops/dashboard_check.py FILE
"""
import json
import sys

from grafana_foundation_sdk.cog import plugins
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard

plugins.register_default_plugins()
given = json.load(open(sys.argv[1], encoding="utf-8"))
read = json.loads(JSONEncoder(sort_keys=True).encode(Dashboard.from_json(given)))


def lost(before, after, where):
    """What stands in one and not in the other, or otherwise."""
    if isinstance(before, dict):
        for name, value in before.items():
            # What is empty by default is left out when it is written.
            if value in (None, [], {}, "", False):
                continue
            if not isinstance(after, dict) or name not in after:
                yield f"{where}.{name}"
                continue
            yield from lost(value, after[name], f"{where}.{name}")
    elif isinstance(before, list):
        if not isinstance(after, list) or len(before) != len(after):
            yield where
            return
        for at, (one, other) in enumerate(zip(before, after)):
            yield from lost(one, other, f"{where}[{at}]")
    elif before != after:
        yield f"{where}: {before!r} became {after!r}"


wrong = list(lost(given, read, "dashboard"))
panels = [panel for panel in given["panels"] if panel["type"] != "row"]
ids = [panel["id"] for panel in given["panels"]]
if len(set(ids)) != len(ids):
    wrong.append("two panels have one id")
seen = set()
for panel in given["panels"]:
    place = panel["gridPos"]
    for x in range(place["x"], place["x"] + place["w"]):
        for y in range(place["y"], place["y"] + place["h"]):
            if (x, y) in seen or x >= 24:
                wrong.append(f"panel {panel['title']} lies on another or outside")
                break
            seen.add((x, y))
        else:
            continue
        break
for line in wrong:
    print("FAIL", line)
if not wrong:
    print(f"ok    {len(panels)} panels, {sum(len(panel['targets']) for panel in panels)} queries")
sys.exit(bool(wrong))
