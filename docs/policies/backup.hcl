# What a job needs that saves the cluster: the snapshot, and a look at the servers to know whether it is a good time.
path "sys/storage/raft/snapshot" {
  capabilities = ["read"]
}

path "sys/storage/raft/configuration" {
  capabilities = ["read"]
}

path "sys/storage/raft/autopilot/state" {
  capabilities = ["read"]
}

path "sys/storage/raft/autopilot/configuration" {
  capabilities = ["read"]
}
