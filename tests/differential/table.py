"""The table of differences that are meant: `differences.txt`.

    reason NAME  why it is so
    section STREAM
    NAME | REQUEST | PLACE PLACE …

REQUEST is a label as the program prints it (`METHOD PATH`, with what tells it from others), PLACE what
`compare.py` calls a place; both may hold `*`. Every line and every place on it has to occur, or the
run fails: the table tells what is, not what was. A `~` before a place says that chance decides.
"""

import re


class Row:
    """One line of the table and what of it was met."""

    def __init__(self, number, reason, request, places):
        self.number = number
        self.reason = reason
        self.request = pattern(request)
        self.places = {place: pattern(place.removeprefix("~")) for place in places}
        self.met = {place for place in places if place.startswith("~")}

    def takes(self, label, place):
        if not self.request.match(label):
            return False
        hits = [name for name, like in self.places.items() if like.match(place)]
        self.met.update(hits)
        return bool(hits)


class Table:
    """All rows, by stream."""

    def __init__(self, text, name):
        self.reasons, self.rows = {}, {}
        section = None
        for number, line in enumerate(text.splitlines(), 1):
            line = line.strip()
            if not line or line.startswith("#"):
                continue
            word, _, rest = line.partition(" ")
            if word == "reason":
                key, _, why = rest.partition(" ")
                self.reasons[key] = why.strip()
            elif word == "section":
                section = self.rows.setdefault(rest.strip(), [])
            else:
                parts = [part.strip() for part in line.split(" | ")]
                if section is None or len(parts) != 3 or parts[0] not in self.reasons:
                    raise SystemExit(f"{name}:{number}: not a line of the table: {line}")
                section.append(Row(number, parts[0], parts[1], parts[2].split()))

    def reason(self, section, label, place):
        """Why this difference is meant, or None."""
        for row in self.rows.get(section, []):
            if row.takes(label, place):
                return row.reason
        return None

    def unmet(self, sections):
        """Rows, and places on them, that did not occur in the streams that were run."""
        for section in sections:
            for row in self.rows.get(section, []):
                for place in row.places:
                    if place not in row.met:
                        yield row.number, section, place


def pattern(text):
    """`*` is anything; every other character is itself."""
    return re.compile(".*".join(re.escape(part) for part in text.split("*")) + r"\Z")
