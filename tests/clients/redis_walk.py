"""Reads and writes secrets with redis-py. RESP_PORT names the server's port; prints one line a check."""

import os

import redis

checks = 0


def check(name, is_so):
    global checks
    if not is_so:
        raise SystemExit(f"FAIL {name}")
    checks += 1
    print(f"ok {name}")


port = int(os.environ["RESP_PORT"])
try:
    redis.Redis(port=port).get("a")
    raise SystemExit("FAIL served without a token")
except redis.exceptions.AuthenticationError:
    check("refused without a token", True)
try:
    redis.Redis(port=port, password="wrong").ping()
    raise SystemExit("FAIL served with a wrong token")
except redis.exceptions.AuthenticationError:
    check("refused with a wrong token", True)

for protocol in (2, 3):
    client = redis.Redis(port=port, password="root", protocol=protocol, decode_responses=True)
    key = f"redis-py/{protocol}"
    check("ping", client.ping() is True)
    check("set", client.set(f"{key}/a", "1") is True)
    check("get", client.get(f"{key}/a") == "1")
    check("get nothing", client.get(f"{key}/none") is None)
    check("set nx", client.set(f"{key}/a", "2", nx=True) is None)
    check("set xx get", client.set(f"{key}/a", "3", xx=True, get=True) == "1")
    check("hset", client.hset(f"{key}/h", mapping={"user": "u", "password": "p"}) == 2)
    check("hgetall", client.hgetall(f"{key}/h") == {"user": "u", "password": "p"})
    check("hkeys", sorted(client.hkeys(f"{key}/h")) == ["password", "user"])
    check("hvals, hlen, hexists, hmget", (sorted(client.hvals(f"{key}/h")), client.hlen(f"{key}/h"), client.hexists(f"{key}/h", "user"), client.hmget(f"{key}/h", "user", "other")) == (["p", "u"], 2, True, ["u", None]))
    check("type and strlen", (client.type(f"{key}/h"), client.type(f"{key}/none"), client.strlen(f"{key}/h")) == ("hash", "none", 0))
    check("hdel", client.hdel(f"{key}/h", "user") == 1)
    check("mset", client.mset({f"{key}/m{at}": str(at) for at in range(30)}) is True)
    check("mget", client.mget(f"{key}/m1", f"{key}/none") == ["1", None])
    check("exists", client.exists(f"{key}/a", f"{key}/none") == 1)
    check("ttl", client.ttl(f"{key}/a") == -1)
    check("scan_iter", len(set(client.scan_iter(f"{key}/m*", count=7))) == 30)
    check("keys", len(client.keys(f"{key}/*")) == 32)
    with client.pipeline(transaction=False) as pipeline:
        for at in range(100):
            pipeline.set(f"{key}/p", str(at)).get(f"{key}/p")
        check("pipeline", pipeline.execute()[-1] == "99")
    # What redis-py does with a pipeline unless it is told otherwise.
    with client.pipeline() as pipeline:
        pipeline.set(f"{key}/t", "1").set(f"{key}/u", "1")
        try:
            pipeline.execute()
            raise SystemExit("FAIL a transaction")
        except redis.exceptions.ResponseError as error:
            check("a transaction is refused", "transactions are not supported" in str(error))
    check("with all that is in it", client.exists(f"{key}/t", f"{key}/u") == 0)
    check("delete", client.delete(f"{key}/a", f"{key}/none") == 1)
    check("info", client.info()["redis_mode"] == "standalone")
    check("command", "get" in client.command())
    try:
        client.flushall()
        raise SystemExit("FAIL flushall")
    except redis.exceptions.ResponseError as error:
        check("unknown command", "unknown command" in str(error))
print(f"{checks} checks")
