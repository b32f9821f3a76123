"""Holds the OpenAPI documents of a running server to an independent validator: the whole one, the one
with engines named by a parameter, the one for nobody, and those that come with help."""

import json
import os
import urllib.request

from openapi_spec_validator import OpenAPIV30SpecValidator

ADDRESS = os.environ["VAULT_ADDR"]
TOKEN = os.environ["VAULT_TOKEN"]
ENGINES = {"mounts": ["kv", "transit"], "auth": ["approle", "cert", "jwt", "kubernetes", "userpass"]}
METHODS = {"get", "put", "post", "patch", "delete"}


def ask(path, token=TOKEN, body=None):
    request = urllib.request.Request(f"{ADDRESS}/v1/{path}", method="POST" if body else "GET")
    if token:
        request.add_header("X-Vault-Token", token)
    with urllib.request.urlopen(request, json.dumps(body).encode() if body else None) as answer:
        text = answer.read()
    return json.loads(text) if text else None


def check(name, document):
    """The document is one, and every operation of it has an id of its own."""
    document = document.get("data") or document
    errors = [
        f"{'/'.join(str(part) for part in error.absolute_path)}: {error.message[:200]}"
        for error in OpenAPIV30SpecValidator(document).iter_errors()
    ]
    assert not errors, f"{name}: {len(errors)} mistakes, the first: {errors[:5]}"
    ids = [
        operation["operationId"]
        for path in document["paths"].values()
        for method, operation in path.items()
        if method in METHODS
    ]
    assert len(ids) == len(set(ids)), f"{name}: an operation id stands twice"
    print(f"ok {name}: {len(document['paths'])} paths, {len(ids)} operations")
    return len(ids)


for family, kinds in ENGINES.items():
    for kind in kinds:
        ask(f"sys/{family}/openapi-{kind}", body={"type": kind})

whole = check("everything", ask("sys/internal/specs/openapi"))
assert whole > 300, "a document of so few operations is not the whole one"
check("engines by parameter", ask("sys/internal/specs/openapi?generic_mount_paths=true"))
assert check("for nobody", ask("sys/internal/specs/openapi", token=None)) == 0, "nobody is told routes"
for path in ["sys/mounts", "secret/", "auth/openapi-approle/", "openapi-transit/"]:
    check(f"help of {path}", ask(f"{path}?help=1")["openapi"])
