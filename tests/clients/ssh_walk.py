"""SSH through hvac, `bao`, `kallisto ssh` and plain HTTP, judged by OpenSSH: a real sshd on loopback and its own ssh.

Certificates of hosts and users, principals, ends, revocation, forced commands, source addresses, every type of key; one-time passwords
by `vault-ssh-helper` under PAM where that can be had.

  ssh_walk.py BAO [VAULT_SSH_HELPER]
"""

import concurrent.futures
import getpass
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

import hvac

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from free_ports import free_port  # noqa: E402

ADDRESS, TOKEN = os.environ["VAULT_ADDR"], os.environ["VAULT_TOKEN"]
client = hvac.Client(url=ADDRESS, token=TOKEN)
bao, kallisto = sys.argv[1], os.environ["KALLISTO"]
helper = sys.argv[2] if len(sys.argv) > 2 else None
work = pathlib.Path(tempfile.mkdtemp())
os.chdir(work)
user = getpass.getuser()
SSHD = shutil.which("sshd") or "/usr/sbin/sshd"
servers = []


def check(what, truth):
    assert truth, what
    print("ok ", what)


def run(*arguments, **more):
    more.setdefault("timeout", 60)
    return subprocess.run([str(word) for word in arguments], capture_output=True, text=True, **more)


def ask(method, path, body=None, token=TOKEN):
    headers = {"X-Vault-Token": token} if token else {}
    request = urllib.request.Request(f"{ADDRESS}/v1/{path}", method=method, headers=headers,
                                     data=None if body is None else json.dumps(body).encode())
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def keep(name, text):
    path = work / name
    path.write_text(text)
    path.chmod(0o600)
    return path


def make_key(name, *kind):
    made = run("ssh-keygen", "-q", "-N", "", "-C", "u@h", "-f", work / name, *kind)
    assert made.returncode == 0, made.stderr
    return (work / f"{name}.pub").read_text()


def start_sshd(config, name, prefix=()):
    """A real sshd with a configuration, on loopback."""
    path = keep(name, config)
    os.makedirs("/run/sshd", exist_ok=True)
    tested = run(SSHD, "-t", "-f", path)
    assert tested.returncode == 0, tested.stderr
    log = open(work / f"{name}.log", "w")
    servers.append(subprocess.Popen([*prefix, SSHD, "-D", "-e", "-f", str(path)], stderr=log, stdout=log))
    port = int(next(line.split()[1] for line in config.splitlines() if line.startswith("Port ")))
    for _ in range(600):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return port
        time.sleep(0.05)
    raise AssertionError((work / f"{name}.log").read_text())


def sign(role, key, **fields):
    answer = client.write_data(f"ssh/sign/{role}", data={"public_key": key, **fields})
    return answer["data"]["signed_key"]


def refused(role, key, **fields):
    try:
        sign(role, key, **fields)
    except hvac.exceptions.InvalidRequest as error:
        return str(error)
    return ""


def told(certificate):
    """What ssh-keygen says of a certificate."""
    path = keep("told-cert.pub", certificate)
    done = run("ssh-keygen", "-L", "-f", path)
    assert done.returncode == 0, done.stderr
    return done.stdout


# The CAs: one for users and one for hosts, and roles.
for mount in ("ssh", "ssh-hosts"):
    client.sys.enable_secrets_engine("ssh", path=mount)
code, body = ask("POST", "ssh/config/ca", {"key_type": "ssh-ed25519"})
user_ca = json.loads(body)["data"]["public_key"]
check("hvac reads the key of the CA", client.secrets.ssh.read_public_key(mount_point="ssh")["data"]["public_key"] == user_ca)
code, body = ask("GET", "ssh/public_key", token=None)
check("anyone reads the key as text", (code, body.decode()) == (200, user_ca))
client.secrets.ssh.submit_ca_information(generate_signing_key=True, key_type="ssh-rsa", mount_point="ssh-hosts")
code, host_ca = ask("GET", "ssh-hosts/public_key", token=None)
host_ca = host_ca.decode()
check("the default CA is of RSA", host_ca.startswith("ssh-rsa "))
client.secrets.ssh.create_role(
    name="users", key_type="ca", allow_user_certificates=True, allowed_users=f"{user},other", default_user=user,
    default_extensions={"permit-pty": ""}, allowed_extensions="permit-pty,permit-port-forwarding",
    allowed_critical_options="force-command,source-address", max_ttl="1h", mount_point="ssh")
check("hvac reads a role", client.secrets.ssh.read_role("users", mount_point="ssh")["data"]["key_type"] == "ca")
check("hvac lists roles", client.secrets.ssh.list_roles(mount_point="ssh")["data"]["keys"] == ["users"])
ask("POST", "ssh/roles/anybody", {"key_type": "ca", "allow_user_certificates": True, "allow_empty_principals": True})
ask("POST", "ssh-hosts/roles/hosts", {"key_type": "ca", "allow_host_certificates": True, "allowed_domains": "example.test,localhost",
                                      "allow_bare_domains": True, "allow_subdomains": True, "ttl": "24h"})

# A host with a signed key, that trusts the CA of users.
host_key = make_key("host_key", "-t", "ed25519")
host_certificate = client.secrets.ssh.sign_ssh_key(
    name="hosts", public_key=host_key, cert_type="host", valid_principals="localhost", mount_point="ssh-hosts")["data"]["signed_key"]
(work / "host_key-cert.pub").write_text(host_certificate)
keep("user_ca.pub", user_ca)
keep("revoked", "")
ssh_port = free_port()
COMMON = f"""ListenAddress 127.0.0.1
HostKey {work}/host_key
HostCertificate {work}/host_key-cert.pub
TrustedUserCAKeys {work}/user_ca.pub
RevokedKeys {work}/revoked
AuthorizedKeysFile none
AuthorizedPrincipalsFile {{principals}}
PidFile none
StrictModes no
PermitRootLogin yes
PasswordAuthentication no
KbdInteractiveAuthentication no
LogLevel VERBOSE
"""
start_sshd(f"Port {ssh_port}\nUsePAM no\n" + COMMON.format(principals="none"), "sshd_config")
keep("known_hosts", f"@cert-authority [localhost]:{ssh_port},localhost {host_ca}")


def login(key, certificate=None, *command, host="localhost", port=None, known="known_hosts"):
    """Logs in by a key and its certificate; the words that the host said, or nothing."""
    if certificate is not None:
        keep("used-cert.pub", certificate)
    certified = ["-o", f"CertificateFile={work}/used-cert.pub"] if certificate is not None else []
    return run("ssh", "-F", "none", "-p", port or ssh_port, "-i", work / key, *certified, "-o", "IdentitiesOnly=yes",
               "-o", "BatchMode=yes", "-o", f"UserKnownHostsFile={work}/{known}", "-o", "GlobalKnownHostsFile=none",
               "-o", "StrictHostKeyChecking=yes", f"{user}@{host}", *(command or ("echo", "welcome")))


def gets_in(done):
    return done.returncode == 0 and "welcome" in done.stdout


user_key = make_key("user_key", "-t", "ed25519")
certificate = sign("users", user_key, valid_principals=user, ttl="5m")
done = login("user_key", certificate)
check("a principal logs in, and the certificate of the host is trusted", gets_in(done))
keep("no_hosts", "")
check("a host without a known key is refused", not gets_in(login("user_key", certificate, known="no_hosts")))
check("a host of another name is refused", not gets_in(login("user_key", certificate, host="127.0.0.1")))
check("without a certificate nobody logs in", not gets_in(login("user_key")))
check("another principal does not log in", not gets_in(login("user_key", sign("users", user_key, valid_principals="other"))))
check("a principal that the role does not allow is not signed",
      "root2 is not a valid value" in refused("users", user_key, valid_principals="root2"))
for name in (f"other,{user}", f"other {user}", f"other\n{user}", f"{user}\0"):
    check(f"{name!r} is no principal", "is not a valid value" in refused("users", user_key, valid_principals=[name]))
anybody = sign("anybody", user_key)
check("a certificate without principals says so", "Principals: (none)" in told(anybody))
# It is good for everybody where the CA is in a file of keys; OpenSSH refuses it where it is trusted as a whole.
check("OpenSSH refuses it as a CA of everybody", not gets_in(login("user_key", anybody)))

# Longer where the machine takes its time to log in.
for secs in (2, 5, 20):
    certificate = sign("users", user_key, ttl=f"{secs}s")
    is_in = gets_in(login("user_key", certificate))
    if is_in:
        break
check("a certificate that has not ended logs in", is_in)
time.sleep(secs + 1)
check("one that has ended does not", not gets_in(login("user_key", certificate)))
certificate = sign("users", user_key, valid_principals=user)
check("before it is revoked it logs in", gets_in(login("user_key", certificate)))
revoked = work / "used-cert.pub"
made = run("ssh-keygen", "-k", "-f", work / "revoked", revoked)
check("ssh-keygen revokes it", made.returncode == 0)
check("what is revoked does not log in", not gets_in(login("user_key", certificate)))
check("another one of the same key does", gets_in(login("user_key", sign("users", user_key))))

certificate = sign("users", user_key, critical_options={"force-command": "echo welcome forced"})
check("a forced command runs, whatever is asked for", "welcome forced" in login("user_key", certificate, "false").stdout)
check("the address of a network logs in",
      gets_in(login("user_key", sign("users", user_key, critical_options={"source-address": "127.0.0.0/8"}))))
check("another address does not",
      not gets_in(login("user_key", sign("users", user_key, critical_options={"source-address": "10.0.0.0/8"}))))
check("a terminal is given where the extension says so",
      "permit-pty" in told(sign("users", user_key)) and "permit-pty" not in told(
          sign("users", user_key, extensions={"permit-port-forwarding": ""})))

for kind in (("-t", "ecdsa", "-b", "256"), ("-t", "ecdsa", "-b", "384"), ("-t", "ecdsa", "-b", "521"), ("-t", "rsa", "-b", "2048"),
             ("-t", "rsa", "-b", "4096")):
    name = "key" + "".join(kind[1::2])
    key = make_key(name, *kind)
    check(f"a key of {kind[1]} {kind[3]} logs in", gets_in(login(name, sign("users", key))))
check("RSA with 1024 bits is not signed", "RSA with 1024 bits" in refused("users", make_key("weak", "-t", "rsa", "-b", "1024")))

# A key on a security key cannot be made without one: its certificate is read by ssh-keygen.
application = b"\0\0\0\x04ssh:"
plain = user_key.split()[1]
import base64
fields = base64.b64decode(plain)[4 + len("ssh-ed25519"):]
name = b"sk-ssh-ed25519@openssh.com"
on_token = base64.b64encode(len(name).to_bytes(4, "big") + name + fields + application).decode()
check("a key on a security key is signed", "sk-ssh-ed25519-cert-v01@openssh.com user" in told(
    sign("users", f"{name.decode()} {on_token}")))

# CAs of every type, made here or by ssh-keygen.
for at, (key_type, bits) in enumerate([("ssh-rsa", 2048), ("ssh-rsa", 4096), ("ec", 256), ("ec", 384), ("ec", 521), ("ed25519", 0)]):
    body = {"key_type": key_type, "key_bits": bits, "set_default": True}
    code, answer = ask("POST", f"ssh/issuers/import/made{at}", body)
    keep("user_ca.pub", json.loads(answer)["data"]["public_key"])
    check(f"a CA of {key_type} {bits} is trusted", gets_in(login("user_key", sign("users", user_key))))
for kind, form in (("ed25519", ()), ("rsa", ()), ("ecdsa", ()), ("rsa", ("-m", "PEM")), ("ecdsa", ("-m", "PKCS8"))):
    name = f"ca-{kind}-{len(form)}"
    public = make_key(name, "-t", kind, *form)
    code, answer = ask("POST", "ssh/config/ca", {"public_key": public, "private_key": (work / name).read_text()})
    check(f"a CA of {kind} that ssh-keygen made is taken in {form}", code == 200)
    keep("user_ca.pub", json.loads(answer)["data"]["public_key"])
    check("and is trusted", gets_in(login("user_key", sign("users", user_key))))

# Keys that are made by the server.
for key_type in ("ed25519", "ec", "rsa"):
    issued = client.write_data("ssh/issue/users", data={"key_type": key_type})["data"]
    keep(f"made-{key_type}", issued["private_key"])
    # Beside the key by its name, which is how ssh finds it where there is no public half.
    keep(f"made-{key_type}-cert.pub", issued["signed_key"])
    check(f"a key of {key_type} that is made logs in", gets_in(login(f"made-{key_type}")))

# A file of principals.
keep("principals", f"from=\"10.0.0.0/8\" {user}\nrole-ops\n")
principals_port = free_port()
start_sshd(f"Port {principals_port}\nUsePAM no\n" + COMMON.format(principals=work / "principals"), "sshd_principals")
keep("known_hosts", f"@cert-authority [localhost]:{ssh_port},[localhost]:{principals_port},localhost {host_ca}")
ask("POST", "ssh/roles/ops", {"key_type": "ca", "allow_user_certificates": True, "allowed_users": "*"})
for names, is_in in ((["role-ops"], True), ([user], False), (["role-ops2"], False), (["*"], False)):
    done = login("user_key", sign("ops", user_key, valid_principals=names), port=principals_port)
    check(f"by a file of principals {names} {'logs' if is_in else 'does not log'} in", gets_in(done) == is_in)

# The command lines.
environment = {**os.environ, "HOME": str(work), "TMPDIR": str(work)}
keep("config", "")
(work / ".ssh").mkdir()
shutil.copy(work / "user_key", work / ".ssh/id_ed25519")
shutil.copy(work / "user_key.pub", work / ".ssh/id_ed25519.pub")
OPTIONS = ("-F", "none", "-p", ssh_port, "-o", "BatchMode=yes")
done = run(kallisto, "ssh", "-mode=ca", "-role=users", "-host-key-mount-point=ssh-hosts", f"{user}@localhost", *OPTIONS,
           "echo", "welcome", env=environment)
check("kallisto ssh logs in, and trusts the host by its CA", gets_in(done))
done = run(kallisto, "ssh", "-mode=ca", "-role=users", "-host-key-mount-point=ssh-hosts", f"{user}@localhost", *OPTIONS,
           "exit 42", env=environment)
check("its exit code is that of the command", done.returncode == 42)
done = run(kallisto, "ssh", "-mode=ca", "-role=users", "-host-key-mount-point=ssh", f"{user}@localhost", *OPTIONS, "true",
           env=environment)
check("a host that another CA signed is refused", done.returncode == 255 and "verification failed" in done.stderr)
done = run(kallisto, "ssh", "-mode=ca", "-role=users", "nobody2@localhost", env=environment)
check("a user that is not allowed is refused by the server",
      done.returncode == 2 and "nobody2 is not a valid value" in done.stderr)
check("nothing is left behind", not list(work.glob("kallisto-ssh-*")))
done = run(bao, "write", "-field=signed_key", "ssh/sign/users", f"public_key=@{work}/user_key.pub")
check("bao signs a key", gets_in(login("user_key", done.stdout + "\n")))
done = run(bao, "ssh", "-mode=ca", "-role=users", "-no-exec", "-field=signed_key", f"-public-key-path={work}/user_key.pub",
           f"{user}@localhost")
if "not on allowed list" in done.stderr:
    ask("POST", "ssh/roles/bao", {"key_type": "ca", "allow_user_certificates": True, "allowed_users": "*", "allowed_extensions": "*"})
    done = run(bao, "ssh", "-mode=ca", "-role=bao", "-no-exec", "-field=signed_key", f"-public-key-path={work}/user_key.pub",
               f"{user}@localhost")
check("bao ssh has a key signed", gets_in(login("user_key", done.stdout.strip() + "\n")))

# One-time passwords.
client.secrets.ssh.create_role(name="otp", key_type="otp", default_user=user, cidr_list="127.0.0.0/8", allowed_users="other",
                               mount_point="ssh")
made = client.secrets.ssh.generate_ssh_credentials(name="otp", ip="127.0.0.1", username=user, mount_point="ssh")
check("hvac has a one-time password made", made["data"]["key_type"] == "otp" and made["lease_id"] and not made["renewable"])
taken = client.secrets.ssh.verify_ssh_otp(otp=made["data"]["key"], mount_point="ssh")["data"]
check("it is good once", taken["username"] == user and taken["ip"] == "127.0.0.1" and taken["role_name"] == "otp")
code, body = ask("POST", "ssh/verify", {"otp": made["data"]["key"]}, token=None)
check("and not twice", (code, json.loads(body)["errors"]) == (400, ["OTP not found"]))
roles = client.secrets.ssh.list_roles_by_ip(ip="127.0.0.9", mount_point="ssh")["data"]["roles"]
check("the roles for an address are found", roles == ["otp"])
client.secrets.ssh.configure_zeroaddress_roles(roles="otp", mount_point="ssh")
check("a role is good for any address", client.secrets.ssh.list_zeroaddress_roles(mount_point="ssh")["data"]["roles"] == ["otp"])
client.secrets.ssh.delete_zeroaddress_role(mount_point="ssh")
for _ in range(4):
    otp = client.secrets.ssh.generate_ssh_credentials(name="otp", ip="127.0.0.1", username=user, mount_point="ssh")["data"]["key"]
    with concurrent.futures.ThreadPoolExecutor(64) as pool:
        codes = list(pool.map(lambda _: ask("POST", "ssh/verify", {"otp": otp}, token=None)[0], range(64)))
    check("of 64 who show one at once one is told that it is good", sorted(codes) == [200] + [400] * 63)
made = client.secrets.ssh.generate_ssh_credentials(name="otp", ip="127.0.0.1", username=user, mount_point="ssh")
client.sys.revoke_lease(made["lease_id"])
for _ in range(600):
    code, _ = ask("POST", "ssh/verify", {"otp": "verify-echo-request"}, token=None)
    if ask("PUT", "sys/leases/lookup", {"lease_id": made["lease_id"]})[0] == 400:
        break
    time.sleep(0.1)
check("a password whose lease was revoked is not good", ask("POST", "ssh/verify", {"otp": made["data"]["key"]}, token=None)[0] == 400)


# What stands for vault-ssh-helper where that cannot be had: it asks the server about the password that PAM hands it.
STAND_IN = """#!/usr/bin/env python3
import json, os, sys, urllib.request
otp = sys.stdin.buffer.read().rstrip(bytes(2)).decode()
request = urllib.request.Request(sys.argv[1] + "/v1/ssh/verify", data=json.dumps({"otp": otp}).encode(), method="PUT")
data = json.load(urllib.request.urlopen(request))["data"]
sys.exit(0 if data["username"] == os.environ["PAM_USER"] and data["ip"] == "127.0.0.1" else 1)
"""


def walk_helper():
    """A login by password at a real sshd, whose PAM asks a helper about it."""
    if helper:
        keep("helper.hcl", f"""vault_addr = "{ADDRESS}"
ssh_mount_point = "ssh"
allowed_roles = "*"
allowed_cidr_list = "127.0.0.0/8"
""")
        asks = [helper, "-dev", f"-config={work}/helper.hcl"]
        done = run(*asks, "-verify-only")
        check("vault-ssh-helper reaches the server", done.returncode == 0 and "verification successful" in done.stderr.lower())
    else:
        print("*** SKIPPED: ssh: vault-ssh-helper is not there: a stand-in of this walk asks about one-time passwords")
        keep("helper", STAND_IN).chmod(0o700)
        asks = [work / "helper", ADDRESS]
    asks = [str(word) for word in asks]
    otp = run(kallisto, "ssh", "-mode=otp", "-no-exec", "-field=key", f"{user}@127.0.0.1").stdout
    for is_good in (True, False):
        done = run(*asks, input=otp, env={**os.environ, "PAM_USER": user})
        check(f"the helper takes a one-time password {'once' if is_good else 'and not twice'}", (done.returncode == 0) == is_good)
    # PAM's file for sshd is another one, for this sshd alone.
    keep("pam", f"auth requisite pam_exec.so quiet expose_authtok {' '.join(asks)}\nauth required pam_permit.so\n"
                "account required pam_permit.so\nsession required pam_permit.so\n")
    if run("unshare", "-m", "mount", "--bind", work / "pam", "/etc/pam.d/sshd").returncode != 0:
        print("*** SKIPPED: ssh: no mount of one's own for PAM: nobody logs in with a one-time password")
        return
    port = free_port()
    config = COMMON.format(principals="none").replace("KbdInteractiveAuthentication no", "KbdInteractiveAuthentication yes")
    mounted = f'mount --bind {work}/pam /etc/pam.d/sshd && exec "$0" "$@"'
    start_sshd(f"Port {port}\nUsePAM yes\n" + config, "sshd_otp", ("unshare", "-m", "sh", "-c", mounted))
    # It stands for sshpass, which types what is in its environment.
    keep("askpass", '#!/bin/sh\necho "$SSHPASS"\n').chmod(0o700)
    keep("sshpass", f'#!/bin/sh\nshift\nSSH_ASKPASS={work}/askpass SSH_ASKPASS_REQUIRE=force exec "$@"\n').chmod(0o700)
    path = {**environment, "PATH": f"{work}:{os.environ['PATH']}"}
    asked = (kallisto, "ssh", "-mode=otp", "-strict-host-key-checking=no", f"-user-known-hosts-file={work}/seen")
    done = run(*asked, f"{user}@127.0.0.1", "-F", "none", "-p", port, "echo", "welcome", env=path)
    check("kallisto ssh logs in with a one-time password", gets_in(done))
    keep("sshpass", f'#!/bin/sh\nshift\nSSHPASS=x SSH_ASKPASS={work}/askpass SSH_ASKPASS_REQUIRE=force exec "$@"\n').chmod(0o700)
    done = run(*asked, f"{user}@127.0.0.1", "-F", "none", "-p", port, "-o", "NumberOfPasswordPrompts=1", "echo", "welcome", env=path)
    check("another password does not log in", not gets_in(done))


try:
    walk_helper()
    deleted = client.secrets.ssh.delete_ca_information(mount_point="ssh").status_code
    check("hvac deletes the CAs and a role",
          deleted == 204 and client.secrets.ssh.delete_role("users", mount_point="ssh").status_code == 204)
    for mount in ("ssh", "ssh-hosts"):
        client.sys.disable_secrets_engine(mount)
finally:
    for server in servers:
        server.terminate()
