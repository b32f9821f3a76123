#!/usr/bin/env python3
"""What an operator meets at a terminal, with the real binary: what is told, where, and that a file in the docs does what it says.

    tests/ops/hands_walk.py KALLISTO
"""
import json
import os
import pty
import re
import socket
import subprocess
import sys
import tempfile
import time

from three import free_ports, raft_config

BINARY = os.path.abspath(sys.argv[1])
DOCS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs")
checks = failures = 0


def check(good, what):
    global checks, failures
    checks += 1
    failures += not good
    print("ok   " if good else "FAIL ", what, flush=True)


work = tempfile.mkdtemp(prefix="kallisto-hands-")
api, peer = free_ports(2)
os.makedirs(f"{work}/data")
with open(f"{work}/k.hcl", "w", encoding="utf-8") as config:
    logged = f'log_format = "json"\nlog_file = "{work}/k.log"\nlog_rotate_bytes = 2000\nlog_rotate_max_files = 2'
    config.write(raft_config(f"{work}/data", api, peer, more=logged))
env = {"PATH": os.environ["PATH"], "HOME": work, "BAO_ADDR": f"http://127.0.0.1:{api}", "NO_COLOR": "1"}


def run(*arguments, token=None, **more):
    with_token = dict(env, **({"BAO_TOKEN": token} if token else {}))
    done = subprocess.run([BINARY, *arguments], env=with_token, capture_output=True, text=True, timeout=60, check=False, **more)
    return done.returncode, done.stdout + done.stderr


def at_terminal(answer, *arguments, token):
    """Runs a command at a terminal of its own, and answers its question."""
    parent, child = pty.openpty()
    process = subprocess.Popen([BINARY, *arguments], env=dict(env, BAO_TOKEN=token), stdin=child, stdout=child, stderr=child)
    os.close(child)
    said = b""
    try:
        while b"[y/N]" not in said and process.poll() is None:
            said += os.read(parent, 4096)
        os.write(parent, answer.encode() + b"\n")
        while chunk := os.read(parent, 4096):
            said += chunk
    except OSError:
        pass
    code = process.wait(timeout=60)
    os.close(parent)
    return code, said.decode()


def logged_lines():
    """The log so far, with the older files; one that is turned over meanwhile has another name by now."""
    while True:
        try:
            names = sorted(name for name in os.listdir(work) if name.startswith("k") and name.endswith(".log"))
            return names, "".join(open(f"{work}/{name}", encoding="utf-8").read() for name in names).splitlines()
        except FileNotFoundError:
            continue


output = open(f"{work}/out", "w+", encoding="utf-8")
manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
manager.bind(f"{work}/notify")
manager.settimeout(20)
notified = dict(os.environ, NOTIFY_SOCKET=f"{work}/notify", WATCHDOG_USEC="600000")
errors = open(f"{work}/errors", "w+", encoding="utf-8")
server = subprocess.Popen([BINARY, "server", f"-config={work}/k.hcl"], stdout=output, stderr=errors, env=notified)
try:
    for _ in range(600):
        if "Next" in open(f"{work}/out", encoding="utf-8").read():
            break
        time.sleep(0.1)
    banner = open(f"{work}/out", encoding="utf-8").read()
    what = open(f"{work}/errors", encoding="utf-8").read()[-500:] if "Next" not in banner else ""
    check("kallisto operator init" in banner and "raft join" in banner, f"the banner of a new server says what is next {what}")
    told = [manager.recv(64), manager.recv(64)]
    check(told == [b"READY=1", b"WATCHDOG=1"], f"a service manager hears that it is ready, and alive: {told}")
    code, said = run("operator", "init", "-key-shares=1", "-key-threshold=1", "-format=json")
    made = json.loads(said)
    root, share = made["root_token"], made["unseal_keys_b64"][0]
    run("operator", "unseal", share)
    code, said = run("status")
    check(code == 0 and re.search(r"Sealed\s+false", said), "BAO_ADDR and BAO_TOKEN are taken")

    code, said = run("operator", "raft", "remove-peer", "nosuch", token=root)
    check(code != 0 and '"nosuch"' in said and "one" in said, "to remove a server that is none fails and names those there are")
    code, said = run("operator", "raft", "autopilot", "state", token=root)
    check(code == 0 and "map[" not in said and re.search(r"one\s+127\.0\.0\.1:\d+\s+leader\s+true", said), "the state of the servers is a table")
    code, said = run("operator", "raft", "autopilot", "set-config", "-min-quorum=3", "-last-contact-threshold=20s", token=root)
    check(code == 0, "autopilot's settings can be changed")
    code, said = run("operator", "raft", "autopilot", "get-config", token=root)
    check(re.search(r"min_quorum\s+3", said) and re.search(r"last_contact_threshold\s+20s", said) and re.search(r"max_trailing_logs\s+1000", said), "and read, and what was not named stays")
    check(run("operator", "raft", "autopilot", "set-config", token=root)[0] == 1, "a change of nothing is a mistake")

    code, said = run("policy", "write", "backup", os.path.join(DOCS, "policies", "backup.hcl"), token=root)
    token = run("token", "create", "-policy=backup", "-field=token", token=root)[1].strip()
    code, said = run("operator", "raft", "snapshot", "save", f"{work}/s.snap", token=token)
    check(code == 0 and os.path.getsize(f"{work}/s.snap") > 0, "the backup policy of the docs saves")
    reads = [run(*words, token=token)[0] for words in [
        ("operator", "raft", "autopilot", "state"), ("operator", "raft", "autopilot", "get-config"), ("operator", "raft", "list-peers")]]
    check(reads == [0, 0, 0], "and looks at the servers")
    check(run("operator", "raft", "autopilot", "set-config", "-min-quorum=5", token=token)[0] == 2, "and changes nothing")
    check(run("read", "sys/mounts", token=token)[0] == 2, "nor reads anything else")

    run("secrets", "enable", "-version=2", "-path=secret", "kv", token=root)
    for name in "abc":
        run("kv", "put", f"secret/app/{name}", "x=1", token=root)
    code, said = run("kv", "get", "secret/app/a", token=token)
    check("kallisto policy explain -capability=read -path=secret/app/a" in said, "a refusal says how to ask why")
    code, said = run("read", "sys/mounts", token=token)
    asked = re.search(r"kallisto (policy explain \S+ \S+)", said)
    code, said = run(*asked.group(1).split(), token=token)
    check(code == 0 and "denied" in said, "and who was refused may ask")
    code, said = at_terminal("n", "kv", "delete", "-recursive", "secret/app", token=root)
    check(code == 1 and run("kv", "get", "secret/app/a", token=root)[0] == 0, "a folder is not deleted when the terminal says no")
    code, said = at_terminal("y", "kv", "delete", "-recursive", "secret/app", token=root)
    check(code == 0 and "Deleted 3" in said, "and is when it says yes")
    run("kv", "put", "secret/app/a", "x=1", token=root)
    code, said = run("kv", "delete", "-recursive", "secret/app", token=root, stdin=subprocess.DEVNULL)
    check(code == 0 and "Deleted 1" in said, "scripts are not asked, and what was deleted before is not deleted again")
    code, said = run("kv", "delete", "-recursive", "-dry-run", "secret/app", token=root)
    check(code == 0 and "Would delete 0" in said, "nor counted by a dry run")
    code, said = run("secrets", "enable", "nosuch", token=root)
    check(code == 2 and "plugin list" in said, "an engine that there is not points to those there are")
    # A server that leads notices so within a second, or later on a busy machine.
    for _ in range(60):
        said = run("status")[1]
        if re.search(r"Active Since\s+20", said):
            break
        time.sleep(0.5)
    check(re.search(r"Active Since\s+20\d\d-", said), "the status says since when the server leads")

    short, long = run("kv", "get", "-h")[1], run("kv", "get", "--help")[1]
    check("--ca-cert" not in short and "--ca-cert" in long and "--version" in short, "-h is short, --help has the connection's flags")
    code, said = run("operator", "raft", "join", "-leader-ca-cert=@/nonexistent.pem", "http://127.0.0.1:1", token=root)
    check(code == 1 and said.startswith("/nonexistent.pem:"), "@file names a file")

    with open(f"{work}/k.hcl", encoding="utf-8") as config:
        whole = config.read()
    for more, expected in (
        ('log_level = "warn"\nlog_requests_level = "info"', "log_requests_level = \\\\\"info\\\\\" has no effect: log_level is warn"),
        ('log_level = "loud"', "configuration not read anew"),
    ):
        with open(f"{work}/k.hcl", "w", encoding="utf-8") as config:
            config.write(f"{whole}\n{more}\n")
        server.send_signal(1)
        for _ in range(200):
            is_told = any(re.search(expected, line) for line in logged_lines()[1])
            if is_told:
                break
            time.sleep(0.1)
        check(is_told, f"SIGHUP says what is wrong with {more.splitlines()[-1]}")
    with open(f"{work}/k.hcl", "w", encoding="utf-8") as config:
        config.write(whole)
    server.send_signal(1)
    time.sleep(0.3)

    def seal():
        """Whether it is sealed, and how long that took."""
        begin = time.time()
        return run("operator", "seal", token=root)[0] == 0, time.time() - begin

    seals = [seal()]
    for signal in (10, 12):
        server.send_signal(signal)
    time.sleep(0.3)
    check(server.poll() is None, "SIGUSR1 and SIGUSR2 end nothing")
    for _ in range(12):
        run("operator", "unseal", share)
        seals.append(seal())
    # The fastest: the machine may have other work, and whoever waited would wait each time.
    check(all(is_sealed for is_sealed, _ in seals) and min(secs for _, secs in seals) < 1.5, "sealing takes no two seconds")
    files, lines = logged_lines()
    lines = [json.loads(line) for line in lines]
    check(len(files) == 3 and all({"@level", "@message", "@module", "@timestamp"} <= set(line) for line in lines), f"the log's files turn over, two older ones stay, and lines have Vault's keys: {files}")
    check(any(line["@message"] == "unsealed" for line in lines), "and say what happened")
    said = run("status")[1]
    check(re.search(r"Sealed\s+true", said) and re.search(r"HA Enabled\s+true", said), "a sealed server of a cluster is one of a cluster")
    check(root not in json.dumps(lines) and share not in json.dumps(lines), "and no token or share")
    manager.setblocking(False)
    try:
        while manager.recv(64):
            pass
    except BlockingIOError:
        manager.settimeout(20)
    server.terminate()
    told = manager.recv(64)
    while told == b"WATCHDOG=1":
        told = manager.recv(64)
    check(told == b"STOPPING=1" and server.wait(20) == 0, f"and that it stops: {told}")
finally:
    server.kill()
    server.wait()
    subprocess.run(["rm", "-rf", work], check=False)

refused = tempfile.mkdtemp(prefix="kallisto-hands-")
with open(f"{refused}/bad.hcl", "w", encoding="utf-8") as config:
    config.write('storage "raft" {\n  pth = "/x"\n}\nlistner "tcp" {}\nlistener "tcp" {\n  adress = "q"\n}\nlog_level = "bogus"\ntelemetry {\n  statsd_address = "x"\n}\n')
said = [run(*words)[1] for words in [("server", f"-config={refused}/bad.hcl"), ("operator", "validate-config", f"-config={refused}/bad.hcl")]]
wanted = ['did you mean "path"', 'did you mean "listener"', 'did you mean "address"', "log_level", "statsd_address in telemetry is not supported"]
for command, text in zip(["the start", "validate-config"], said):
    absent = [word for word in wanted if word not in text]
    check(not absent, f"{command} tells every mistake at once: {absent}")
subprocess.run(["rm", "-rf", refused], check=False)
print(f"{checks - failures} of {checks} hold")
sys.exit(bool(failures))
