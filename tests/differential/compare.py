"""Compares two answers after masking what differs from run to run.

`places(theirs, ours)` lists what differs, each as `(place, theirs, ours)`. A place is

- `status:403>404`, theirs before ours;
- `header:location`;
- a path into the JSON body such as `/data/keys`; `-` before the last step says that only they have
  it, `+` that only we do; `/` is a body that is not JSON on one side.
"""

import functools
import json
import re

# Headers that mean something to a client.
HEADERS = (
    "allow",
    "cache-control",
    "content-type",
    "location",
    "retry-after",
    "strict-transport-security",
    "www-authenticate",
    "x-ratelimit-limit",
    "x-ratelimit-remaining",
)

# What is drawn at random or tells the time, each masked by what it is.
MASKS = [
    (re.compile(pattern), name)
    for pattern, name in (
        (r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", "UUID"),
        (r"\b(?!0001-01-01)\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)", "TIME"),
        (r"\b(hvs|s)\.[A-Za-z0-9]{24,100}\b", "SERVICE-TOKEN"),
        (r"\b(hvb|b)\.[A-Za-z0-9_=-]{60,}", "BATCH-TOKEN"),
        (r"hmac-sha256:[0-9a-f]{64}", "HMAC"),
        (r"\bv\d+\.\d+\.\d+\+builtin\.\w+", "BUILTIN"),
        (r"^v?\d+\.\d+\.\d+$", "VERSION"),
        (r"\b(auth_approle|auth_token|auth_userpass|cubbyhole|generic|identity|kv|system|transit)_[0-9a-f]{8}\b", r"\1_ID"),
        (r"\bh[0-9a-f]{64}\b", "LEASE-HASH"),
        (r"\b(entity|group)_[0-9a-f]{8}(\.root)?\b", r"\1_NAME"),
        (r"\b[0-9a-f]{40}\b", "SHA1"),
        (r"^[A-Za-z0-9]{24}$", "ACCESSOR"),
        (r"vault:v(\d+):[A-Za-z0-9+/=_-]{16,}", r"vault:v\1:TEXT"),
        (r"-----BEGIN ([A-Z0-9 ]+)-----[^-]+-----END [A-Z0-9 ]+-----", r"PEM \1"),
        (r"\b([0-9a-f]{2}:){15,19}[0-9a-f]{2}\b", "SERIAL-NUMBER"),
        (r"127\.0\.0\.1:\d+", "ADDRESS"),
        # Each parser has words of its own for what is wrong with JSON.
        (r"(failed to decode JSON input: ).*", r"\1WORDS"),
    )
]

# Fields whose text is drawn at random: compared by length.
RANDOM = re.compile(
    r"/(random_bytes|encoded_token|encoded_root_token|otp|password|public_key|backup"
    r"|keys/\d+|keys_base64/\d+|cluster_name|data/plaintext)$"
)
# Numbers that count seconds while the program runs, or tell the time.
SECONDS = re.compile(r"/(\w*_?ttl|lease_duration|expiration|not_before|\w*_time|\w+_time_utc|token_ttl|keys/(.*/)?\d+)$")
# Members that this server has besides, wherever a version or the settings of a KV mount are shown; docs/api.md has them.
BESIDES = re.compile(r"(/versions/\d+/\+(created_by|deleted_by|request_id)|/data/\+attribution)$")
# As many as the machine may keep one of the two waiting for.
SECONDS_APART = 5
EPOCH = 1_500_000_000


def places(theirs, ours, captured):
    """Every difference between two answers."""
    found = []
    if theirs.status != ours.status:
        found.append((f"status:{theirs.status}>{ours.status}", theirs.status, ours.status))
    for name in HEADERS:
        pair = [mask(answer.headers.get(name, ""), known)
                for answer, known in zip((theirs, ours), captured)]
        if pair[0] != pair[1]:
            found.append((f"header:{name}", *pair))
    bodies = [decode(answer.body, known) for answer, known in zip((theirs, ours), captured)]
    walk("", *bodies, found)
    return found


def decode(body, captured):
    """The body as JSON with everything masked, or as masked text."""
    try:
        return masked(json.loads(body), captured)
    except ValueError:
        return Text(mask(body.decode("utf-8", "replace"), captured))


class Text(str):
    """A body that is no JSON."""


def masked(value, captured):
    if isinstance(value, dict):
        made = {}
        for key, inner in value.items():
            name = mask(key, captured)
            while name in made:
                name += "+"
            made[name] = masked(inner, captured)
        return made
    if isinstance(value, list):
        return [masked(inner, captured) for inner in value]
    return mask(value, captured) if isinstance(value, str) else value


def mask(text, captured):
    """`text` with captured values named, and what looks random or like a time by its kind."""
    for name, value in captured.items():
        if len(value) > 5 and value in text:
            text = text.replace(value, f"<{name}>")
    return masked_by_kind(text)


@functools.lru_cache(maxsize=1 << 16)
def masked_by_kind(text):
    for pattern, name in MASKS:
        text = pattern.sub(name, text)
    return text


def walk(place, theirs, ours, found):
    """Adds the differences below `place`."""
    if isinstance(theirs, dict) and isinstance(ours, dict):
        for key in sorted(theirs.keys() | ours.keys()):
            if key not in ours:
                found.append((f"{place}/-{key}", theirs[key], None))
            elif key not in theirs:
                if not BESIDES.search(f"{place}/+{key}"):
                    found.append((f"{place}/+{key}", None, ours[key]))
            else:
                walk(f"{place}/{key}", theirs[key], ours[key], found)
    elif isinstance(theirs, list) and isinstance(ours, list) and len(theirs) == len(ours):
        # What is sorted by something random has no order that could be compared.
        if unordered(theirs) != unordered(ours):
            for at, (one, other) in enumerate(zip(theirs, ours)):
                walk(f"{place}/{at}", one, other, found)
        elif theirs != ours and not re.search(r"[A-Z]{4}|<", json.dumps(theirs)):
            found.append((f"{place}/order", theirs, ours))
    elif not same(place, theirs, ours):
        found.append((place or "/", theirs, ours))


def unordered(values):
    return sorted(json.dumps(value, sort_keys=True) for value in values)


def same(place, theirs, ours):
    """Whether two leaves are equal, or equal in kind where they are random or tell the time."""
    if theirs == ours and type(theirs) is type(ours):
        return True
    if isinstance(theirs, str) and isinstance(ours, str):
        return bool(RANDOM.search(place)) and len(theirs) == len(ours)
    numbers = all(isinstance(value, (int, float)) and not isinstance(value, bool)
                  for value in (theirs, ours))
    if numbers and SECONDS.search(place):
        return abs(theirs - ours) <= SECONDS_APART or min(theirs, ours) > EPOCH
    return False
