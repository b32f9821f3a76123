"""A slapd with TLS, some people and groups, and a manager who may change passwords."""

import base64
import os
import shutil
import subprocess

from far_ends.processes import free_port, is_listening, start

BASE = "dc=example,dc=org"
PEOPLE, GROUPS = f"ou=people,{BASE}", f"ou=groups,{BASE}"
SLAPD = shutil.which("slapd") or ("/usr/sbin/slapd" if os.path.exists("/usr/sbin/slapd") else None)
ENTRIES = f"""dn: {BASE}
objectClass: dcObject
objectClass: organization
dc: example
o: Example

dn: {PEOPLE}
objectClass: organizationalUnit
ou: people

dn: {GROUPS}
objectClass: organizationalUnit
ou: groups

dn: cn=binder,{BASE}
objectClass: organizationalRole
objectClass: simpleSecurityObject
cn: binder
userPassword: binderpw

dn: cn=Alice A,{PEOPLE}
objectClass: inetOrgPerson
cn: Alice A
sn: A
uid: alice
mail: alice@example.org
userPassword: alicepw

dn: cn=Bob (B),{PEOPLE}
objectClass: inetOrgPerson
cn: Bob (B)
sn: B
uid: bob
userPassword: bobpw

dn: cn=a\\,b *\\\\2a,{PEOPLE}
objectClass: inetOrgPerson
cn: a,b *\\2a
sn: odd
uid: odd
userPassword:: KigpXCDDvG9kZA==

dn: cn=svc1,{PEOPLE}
objectClass: inetOrgPerson
cn: svc1
sn: svc1
uid: svc1
userPassword: old1

dn: cn=svc2,{PEOPLE}
objectClass: inetOrgPerson
cn: svc2
sn: svc2
uid: svc2
userPassword: old2

dn: cn=svc3,{PEOPLE}
objectClass: inetOrgPerson
cn: svc3
sn: svc3
uid: svc3
userPassword: old3

dn: cn=Two Names,{PEOPLE}
objectClass: inetOrgPerson
cn: Two Names
sn: T
uid: two
uid: deux
userPassword: twopw

dn: cn=engineers,{GROUPS}
objectClass: groupOfNames
cn: engineers
member: cn=Alice A,{PEOPLE}

dn: cn=all staff,{GROUPS}
objectClass: groupOfNames
cn: all staff
member: cn=Alice A,{PEOPLE}
member: cn=Bob (B),{PEOPLE}

dn: cn=odd ones,{GROUPS}
objectClass: groupOfNames
cn: odd ones
member: cn=a\\,b *\\\\2a,{PEOPLE}

dn: cn=outer,{GROUPS}
objectClass: groupOfNames
cn: outer
member: cn=engineers,{GROUPS}
"""

# Attributes that Active Directory and RACF keep passwords in, as a directory that takes any bytes for them.
FOREIGN_SCHEMA = """attributetype ( 1.3.6.1.4.1.4203.666.7.1 NAME 'unicodePwd' EQUALITY octetStringMatch SYNTAX 1.3.6.1.4.1.1466.115.121.1.40 SINGLE-VALUE )
attributetype ( 1.3.6.1.4.1.4203.666.7.2 NAME 'racfPassword' EQUALITY octetStringMatch SYNTAX 1.3.6.1.4.1.1466.115.121.1.40 SINGLE-VALUE )
attributetype ( 1.3.6.1.4.1.4203.666.7.3 NAME 'racfAttributes' EQUALITY caseIgnoreMatch SYNTAX 1.3.6.1.4.1.1466.115.121.1.15 )
objectclass ( 1.3.6.1.4.1.4203.666.7.4 NAME 'foreignPerson' SUP top AUXILIARY MAY ( unicodePwd $ racfPassword $ racfAttributes ) )
"""
CREATION = "dn: cn={{.Username}}," + PEOPLE + "\nobjectClass: inetOrgPerson\ncn: {{.Username}}\nsn: {{.Password | utf16le | base64}}\nuserPassword: {{.Password}}\n"
DELETION = "dn: cn={{.Username}}," + PEOPLE + "\nchangetype: delete\n"


class Directory:
    """A slapd with TLS, anonymous reads and simple binds."""

    def __init__(self, work):
        self.work = work
        self.port, self.tls_port = free_port(), free_port()
        (self.work / "db").mkdir()
        self.has_tls = bool(shutil.which("openssl"))
        if self.has_tls:
            (self.work / "leaf.cnf").write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\nbasicConstraints=critical,CA:FALSE\n")
            for words in (["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=Walk CA"],
                          ["req", "-newkey", "rsa:2048", "-nodes", "-keyout", "key.pem", "-out", "leaf.csr", "-subj", "/CN=localhost"],
                          ["x509", "-req", "-in", "leaf.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2", "-extfile", "leaf.cnf",
                           "-out", "cert.pem"]):
                subprocess.run(["openssl", *words], check=True, capture_output=True, cwd=self.work)
        tls = f"TLSCACertificateFile {self.work}/ca.pem\nTLSCertificateFile {self.work}/cert.pem\nTLSCertificateKeyFile {self.work}/key.pem\n" if self.has_tls else ""
        schemas = "".join(f"include /etc/ldap/schema/{name}.schema\n" for name in ("core", "cosine", "inetorgperson", "nis"))
        (self.work / "foreign.schema").write_text(FOREIGN_SCHEMA)
        schemas += f"include {self.work}/foreign.schema\n"
        self.conf = self.work / "slapd.conf"
        self.conf.write_text(
            f"{schemas}modulepath /usr/lib/ldap\nmoduleload back_mdb\npidfile {self.work}/slapd.pid\n{tls}allow bind_anon_cred bind_anon_dn\n"
            f"database mdb\nsuffix \"{BASE}\"\nrootdn \"cn=admin,{BASE}\"\nrootpw adminpw\ndirectory {self.work}/db\nmaxsize 67108864\ndbnosync\n"
            f"access to attrs=userPassword by self write by dn.exact=\"cn=manager,{BASE}\" write by anonymous auth by * none\n"
            f"access to * by dn.exact=\"cn=manager,{BASE}\" write by * read\n")
        self.start()
        added = self.tool("ldapadd", f"cn=admin,{BASE}", "adminpw", stdin=ENTRIES + f"""
dn: cn=manager,{BASE}
objectClass: organizationalRole
objectClass: simpleSecurityObject
cn: manager
userPassword: managerpw
""")
        if added.returncode:
            raise SystemExit(added.stderr)

    def start(self):
        urls = f"ldap://127.0.0.1:{self.port}" + (f" ldaps://127.0.0.1:{self.tls_port}" if self.has_tls else "")
        self.process = start([SLAPD, "-f", self.conf, "-h", urls, "-d", "0"], self.work / "slapd.log", cwd=self.work)
        if not is_listening(self.port, self.process):
            raise SystemExit("slapd does not listen")

    def stop(self):
        self.process.terminate()
        self.process.wait(20)

    def tool(self, name, dn, password, *words, stdin=None, url=None):
        command = [name, "-x", "-H", url or f"ldap://127.0.0.1:{self.port}", "-o", "nettimeout=5"]
        command += ["-D", dn, "-w", password] if dn else []
        return subprocess.run([*command, *words], input=stdin, capture_output=True, text=True, timeout=30, check=False)

    def logs_in(self, dn, password):
        return self.tool("ldapwhoami", dn, password).returncode == 0

    def change(self, ldif):
        changed = self.tool("ldapmodify", f"cn=admin,{BASE}", "adminpw", stdin=ldif)
        if changed.returncode:
            raise SystemExit(changed.stderr)

    def count(self, pattern):
        found = self.tool("ldapsearch", f"cn=admin,{BASE}", "adminpw", "-LLL", "-b", PEOPLE, f"(cn={pattern})", "dn")
        return found.stdout.count("dn:")

    def value(self, dn, attribute):
        """The bytes of an attribute."""
        found = self.tool("ldapsearch", f"cn=admin,{BASE}", "adminpw", "-LLL", "-o", "ldif-wrap=no", "-b", dn, "-s", "base", "(objectClass=*)", attribute).stdout
        for line in found.splitlines():
            name, _, rest = line.partition(":")
            if name.lower() == attribute.lower():
                return base64.b64decode(rest[2:]) if rest.startswith(":") else rest.strip().encode()
        return None

    def url(self):
        return f"ldap://127.0.0.1:{self.port}"
