"""What every route is asked whatever it does: without a token, with a wrong one, with one that may
nothing, by methods it does not have, and with bodies that are no JSON object.

`routes.txt` has a line for each route: the path, then the methods it has; then `open` if it answers
without a token. Nothing here is to change anything: a method that a route has is only sent where it
must be refused.
"""

from stream import Request

METHODS = ("GET", "POST", "DELETE", "PATCH", "LIST", "SCAN")
BODIES = (
    ("array", "[1]"),
    ("text", '"text"'),
    ("broken", '{"a":'),
    ("trailing", '{"a":1}x'),
)
POOR = "<poor>"
POLICY = 'path "nowhere/*" { capabilities = ["read"] }'


def steps(text):
    """The requests for all routes."""
    made = [
        Request("POST", "sys/mounts/k1", '{"type":"kv"}'),
        Request("POST", "sys/mounts/t", '{"type":"transit"}'),
        Request("POST", "sys/auth/userpass", '{"type":"userpass"}'),
        Request("POST", "sys/auth/approle", '{"type":"approle"}'),
        Request("POST", "sys/policies/acl/poor", f'{{"policy":"{escape(POLICY)}"}}'),
        Request("POST", "auth/token/create", '{"policies":["poor"],"no_default_policy":true}',
                keep=[("poor", "auth.client_token")]),
    ]
    for line in text.splitlines():
        if line and not line.startswith("#"):
            path, *words = line.split()
            made += route(path, [word for word in words if word != "open"], "open" in words)
    return made


def escape(text):
    return text.replace('"', '\\"')


def route(path, methods, is_open):
    """The requests for one route."""
    for method in METHODS:
        merge = [("Content-Type", "application/merge-patch+json")] if method == "PATCH" else []
        body = "{}" if method in ("POST", "PATCH") else None
        if not (is_open and method in methods):
            yield Request(method, path, body, None, merge)
            yield Request(method, path, body, POOR, merge)
        if method not in methods:
            yield Request(method, path, body, headers=merge)
    if not is_open:
        yield Request("GET", path, None, "bogus")
        yield Request(methods[0], path, None, "hvs.AAAAAAAAAAAAAAAAAAAAAAAA")
    if "POST" in methods:
        for note, body in BODIES:
            yield Request("POST", path, body, note=note)
    if "PATCH" in methods:
        yield Request("PATCH", path, "{}", note="no content type")
    yield Request("TRACE", path)
    yield Request("HEAD", path)
