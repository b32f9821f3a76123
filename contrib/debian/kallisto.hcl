# The configuration of Kallisto: `kallisto operator validate-config -config=/etc/kallisto/kallisto.hcl` looks at it,
# and docs/reference/configuration.md has every key. After the first start: `kallisto operator init`.

ui = true

storage "raft" {
  path = "/var/lib/kallisto/data"
}

# The certificate is made at the first start, for this machine's name and localhost; clients believe it with
# VAULT_CACERT=/var/lib/kallisto/tls/ca.pem. Put one of your own authority here, and reload with `systemctl reload kallisto`.
listener "tcp" {
  address       = "127.0.0.1:8200"
  tls_cert_file = "/var/lib/kallisto/tls/cert.pem"
  tls_key_file  = "/var/lib/kallisto/tls/key.pem"
}

# How other servers and clients reach this one; for a cluster, an address that they can.
api_addr     = "https://127.0.0.1:8200"
cluster_addr = "https://127.0.0.1:8201"
