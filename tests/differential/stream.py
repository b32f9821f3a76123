"""Streams of requests, as text: what `streams/*.txt` hold.

One request a line, in order; a line that begins with a blank goes on with the one before; `#` begins
a comment. After method and path (below `/v1/`, or from the root with a leading `/`) comes the body,
if any: JSON, or `raw "…"` for bytes as they are. Then, after ` ; ` each:

- `as TOKEN`: another token than the root token; `as nobody` for none;
- `header NAME: VALUE`;
- `keep NAME=PLACE`: keeps the value at `data.key`, say, of each server's answer: `<NAME>` stands for
  it from there on, in requests, and in the places where answers show it;
- `note TEXT`: tells requests of the same method and path apart.

Lines that begin with `@` are for the program: `@fresh` on the first line gives the stream servers of
its own, `@pause SECONDS` waits.
"""

import json
import re

REQUEST = re.compile(r"(?P<method>[A-Z]+) (?P<path>\S*)(?: (?P<rest>.*))?$", re.S)


class Request:
    """One line: what to send, and what to keep of the answers."""

    def __init__(self, method, path, body=None, token="root", headers=(), keep=(), note=""):
        self.method = method
        self.path = path
        self.body = body
        self.token = token
        self.headers = list(headers)
        self.keep = list(keep)
        self.note = note

    def label(self):
        """What the table of differences calls it."""
        who = "" if self.token == "root" else f" as {self.token or 'nobody'}"
        note = f" ({self.note})" if self.note else ""
        return f"{self.method} {self.path}{who}{note}"


class Pause:
    """A wait between two requests."""

    def __init__(self, seconds):
        self.seconds = seconds


def parse(text, name):
    """The steps of a stream, and whether it wants servers of its own."""
    steps, fresh = [], False
    for number, line in lines(text):
        if line == "@fresh":
            fresh = True
        elif line.startswith("@pause "):
            steps.append(Pause(float(line.split()[1])))
        else:
            try:
                steps.append(parse_request(line))
            except ValueError as error:
                raise SystemExit(f"{name}:{number}: {error}: {line}") from None
    return steps, fresh


def lines(text):
    """Logical lines with the number of their first."""
    whole = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        if line[0] in " \t" and whole:
            whole[-1] = (whole[-1][0], f"{whole[-1][1]} {line.strip()}")
        else:
            whole.append((number, line.strip()))
    return whole


def parse_request(line):
    match = REQUEST.match(line)
    if not match:
        raise ValueError("no request")
    body, rest = parse_body(match["rest"] or "")
    request = Request(match["method"], match["path"], body)
    for option in filter(None, (part.strip() for part in rest.split(" ; "))):
        word, _, value = option.partition(" ")
        if word == "as":
            request.token = None if value == "nobody" else value
        elif word == "header":
            header, _, text = value.partition(":")
            request.headers.append((header, text.strip()))
        elif word == "keep":
            request.keep.append(tuple(value.split("=", 1)))
        elif word == "note":
            request.note = value
        else:
            raise ValueError(f"`{word}` is not known")
    return request


def parse_body(rest):
    """The body and what follows it."""
    rest = rest.strip()
    decoder = json.JSONDecoder()
    if rest.startswith("raw "):
        text, end = decoder.raw_decode(rest[4:])
        return text, rest[4 + end :].strip().removeprefix(";")
    if rest.startswith("{"):
        _, end = decoder.raw_decode(rest)
        return rest[:end], rest[end:].strip().removeprefix(";")
    return None, rest.removeprefix(";")
