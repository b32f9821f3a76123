"""hvac against the transit engine: every call of `secrets.transit`, each type of key, batches, refusals.

What leaves the server is checked with the `cryptography` package where there is one (hvac does not need it).
"""

import base64
import os

import hvac

client = hvac.Client(url=os.environ["VAULT_ADDR"], token=os.environ["VAULT_TOKEN"])
transit = client.secrets.transit
MOUNT = "transit-walk"
AT = {"mount_point": MOUNT}
PLAIN = base64.b64encode(b"a plaintext").decode()
CONTEXT = base64.b64encode(b"a context").decode()

try:
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec, padding
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM
except ImportError:
    serialization = None


def check(what, truth):
    assert truth, what
    print("ok ", what)


def refused(what, text, call, *args, **kwargs):
    try:
        call(*args, **kwargs)
    except hvac.exceptions.VaultError as error:
        assert text in str(error), (what, str(error))
        print("ok ", what, "->", type(error).__name__)
        return
    raise AssertionError(what + " was not refused")


def create(name, **fields):
    """As `create_key`, which refuses the types hvac does not know."""
    return client.adapter.post(f"/v1/{MOUNT}/keys/{name}", json=fields)


client.sys.enable_secrets_engine("transit", path=MOUNT)

# Ciphers, derived and not.
for kind in ["aes128-gcm96", "aes256-gcm96", "chacha20-poly1305", "xchacha20-poly1305", "rsa-2048"]:
    made = create(kind, type=kind)["data"]
    check(kind, made["type"] == kind and made["latest_version"] == 1 and made["supports_encryption"])
    first = transit.encrypt_data(kind, PLAIN, **AT)["data"]["ciphertext"]
    transit.rotate_key(kind, **AT)
    check("decrypts over a rotation", transit.decrypt_data(kind, first, **AT)["data"]["plaintext"] == PLAIN)
    again = transit.rewrap_data(kind, first, **AT)["data"]
    check("rewraps", again["key_version"] == 2 and again["ciphertext"].startswith("vault:v2:"))
    key = transit.generate_data_key(kind, key_type="plaintext", **AT)["data"]
    check("data key", transit.decrypt_data(kind, key["ciphertext"], **AT)["data"]["plaintext"] == key["plaintext"])
    check("wrapped alone", "plaintext" not in transit.generate_data_key(kind, key_type="wrapped", **AT)["data"])

create("conv", type="xchacha20-poly1305", derived=True, convergent_encryption=True)
one = transit.encrypt_data("conv", PLAIN, context=CONTEXT, **AT)["data"]["ciphertext"]
check("convergent", one == transit.encrypt_data("conv", PLAIN, context=CONTEXT, **AT)["data"]["ciphertext"])
check("decrypts by context", transit.decrypt_data("conv", one, context=CONTEXT, **AT)["data"]["plaintext"] == PLAIN)
refused("no context", "missing 'context'", transit.encrypt_data, "conv", PLAIN, **AT)

items = [{"plaintext": PLAIN, "reference": "r"}, {"plaintext": PLAIN}]
batch = transit.encrypt_data("aes256-gcm96", batch_input=items, **AT)["data"]["batch_results"]
check("batch", len(batch) == 2 and batch[0]["reference"] == "r")
back = [{"ciphertext": item["ciphertext"]} for item in batch]
opened = transit.decrypt_data("aes256-gcm96", "", batch_input=back, **AT)["data"]["batch_results"]
check("batch back", [item["plaintext"] for item in opened] == [PLAIN, PLAIN])
refused("what is no ciphertext", "no prefix", transit.decrypt_data, "aes256-gcm96", "x", **AT)
refused("a changed one", "authentication failed", transit.decrypt_data, "aes256-gcm96", "vault:v1:" + "A" * 40, **AT)
refused("of no key", "encryption key not found", transit.decrypt_data, "none", first, **AT)

# Signatures.
for kind in ["ed25519", "ecdsa-p256", "ecdsa-p384", "ecdsa-p521", "rsa-2048"]:
    name = "sign-" + kind
    transit.create_key(name, key_type=kind, **AT)
    for marshaling in ["asn1", "jws"] if kind.startswith("ecdsa") else ["asn1"]:
        for algorithm in ["pss", "pkcs1v15"] if kind.startswith("rsa") else [None]:
            for hashed in ["sha2-256", "sha2-512"]:
                how = {"hash_algorithm": hashed, "marshaling_algorithm": marshaling, "signature_algorithm": algorithm}
                signature = transit.sign_data(name, PLAIN, **how, **AT)["data"]["signature"]
                valid = transit.verify_signed_data(name, PLAIN, signature=signature, **how, **AT)["data"]["valid"]
                other = transit.verify_signed_data(name, CONTEXT, signature=signature, **how, **AT)["data"]["valid"]
                check(f"{kind} {marshaling} {algorithm} {hashed}", valid and not other)
refused("a cipher does not sign", "does not support signing", transit.sign_data, "conv", PLAIN, **AT)

hmac = transit.generate_hmac("conv", PLAIN, algorithm="sha2-512", **AT)["data"]["hmac"]
how = {"hmac": hmac, "hash_algorithm": "sha2-512"}
check("hmac", transit.verify_signed_data("conv", PLAIN, **how, **AT)["data"]["valid"])
check("of another input", not transit.verify_signed_data("conv", CONTEXT, **how, **AT)["data"]["valid"])

# Tools.
check("random", len(transit.generate_random_bytes(16, output_format="hex", **AT)["data"]["random_bytes"]) == 32)
summed = transit.hash_data(PLAIN, algorithm="sha2-256", output_format="hex", **AT)["data"]["sum"]
check("hash", summed == __import__("hashlib").sha256(b"a plaintext").hexdigest())

# Export, backup, restore.
refused("not exportable", "not exportable", transit.export_key, "aes256-gcm96", "encryption-key", **AT)
refused("no backup", "disallowed", transit.backup_key, "aes256-gcm96", **AT)
for kind in ["aes256-gcm96", "ecdsa-p256", "rsa-2048", "ed25519"]:
    name = "out-" + kind
    transit.create_key(name, key_type=kind, exportable=True, allow_plaintext_backup=True, **AT)
    backup = transit.backup_key(name, **AT)["data"]["backup"]
    transit.restore_key(backup, name="back-" + kind, **AT)
    refused("restored over a key", "already exists", transit.restore_key, backup, name="back-" + kind, **AT)
    transit.restore_key(backup, name="back-" + kind, force=True, **AT)
    check("backup of " + kind, transit.read_key("back-" + kind, **AT)["data"]["restore_info"]["version"] == 1)
    tag = transit.generate_hmac(name, PLAIN, **AT)["data"]["hmac"]
    check("the same key", transit.verify_signed_data("back-" + kind, PLAIN, hmac=tag, **AT)["data"]["valid"])

if serialization:
    raw = transit.export_key("out-aes256-gcm96", "encryption-key", **AT)["data"]["keys"]["1"]
    sealed = transit.encrypt_data("out-aes256-gcm96", PLAIN, **AT)["data"]["ciphertext"].split(":")[2]
    sealed = base64.b64decode(sealed)
    check("opened elsewhere", AESGCM(base64.b64decode(raw)).decrypt(sealed[:12], sealed[12:], None) == b"a plaintext")
    pem = transit.read_key("out-ecdsa-p256", **AT)["data"]["keys"]["1"]["public_key"].encode()
    signature = transit.sign_data("out-ecdsa-p256", PLAIN, hash_algorithm="sha2-512", **AT)["data"]["signature"]
    serialization.load_pem_public_key(pem).verify(
        base64.b64decode(signature.split(":")[2]), b"a plaintext", ec.ECDSA(hashes.SHA512())
    )
    check("verified elsewhere", True)
    pem = transit.export_key("out-rsa-2048", "signing-key", **AT)["data"]["keys"]["1"].encode()
    private = serialization.load_pem_private_key(pem, None)
    signature = transit.sign_data("out-rsa-2048", PLAIN, signature_algorithm="pss", **AT)["data"]["signature"]
    pss = padding.PSS(padding.MGF1(hashes.SHA256()), padding.PSS.AUTO)
    private.public_key().verify(base64.b64decode(signature.split(":")[2]), b"a plaintext", pss, hashes.SHA256())
    check("rsa verified elsewhere", True)
    ours = private.public_key().encrypt(
        b"a plaintext", padding.OAEP(padding.MGF1(hashes.SHA256()), hashes.SHA256(), None)
    )
    ours = "vault:v1:" + base64.b64encode(ours).decode()
    check("encrypted elsewhere", transit.decrypt_data("out-rsa-2048", ours, **AT)["data"]["plaintext"] == PLAIN)

# Settings, trimming, deleting.
transit.rotate_key("aes256-gcm96", **AT)
set_to = transit.update_key_configuration("aes256-gcm96", min_decryption_version=2, min_encryption_version=3, **AT)
check("settings", set_to["data"]["min_decryption_version"] == 2)
refused("too old", "too old", transit.decrypt_data, "aes256-gcm96", batch[0]["ciphertext"].replace("v2", "v1"), **AT)
check("trimmed", transit.trim_key("aes256-gcm96", 2, **AT)["data"]["min_available_version"] == 2)
refused("deletion", "deletion is not allowed", transit.delete_key, "aes256-gcm96", **AT)
transit.update_key_configuration("aes256-gcm96", deletion_allowed=True, **AT)
transit.delete_key("aes256-gcm96", **AT)
check("gone from the list", "aes256-gcm96" not in transit.list_keys(**AT)["data"]["keys"])
refused("and from reading", "", transit.read_key, "aes256-gcm96", **AT)
client.sys.disable_secrets_engine(MOUNT)
