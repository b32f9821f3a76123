#!/usr/bin/env bash
# Builds what walk.py needs of Kubernetes from Go modules: kube-apiserver, kube-controller-manager, and helm where it is not installed.
#
#   tests/ops/kubernetes/build.sh FOLDER
#
# What is in FOLDER already is not built again. It takes a quarter of an hour on two cores, and 2 GB of Go's caches.
set -euo pipefail
kubernetes=1.37.1 helm=v3.19.2
folder=${1:?a folder for the binaries}
mkdir -p "$folder"
folder=$(realpath "$folder")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export CGO_ENABLED=0 GOFLAGS=-mod=mod
cd "$work"

# Its parts are modules of their own, which only its own repository replaces by folders.
module=$(go mod download -json "k8s.io/kubernetes@v$kubernetes" | sed -n 's/.*"GoMod": "\(.*\)".*/\1/p')
{
  printf 'module built\n\n'
  sed -n '/^go [0-9]/p; /^godebug /p' "$module"
  printf 'require k8s.io/kubernetes v%s\n' "$kubernetes"
  sed -n "s|^[[:space:]]*\\(k8s.io/[a-z-]*\\) => ./staging/.*|replace \\1 => \\1 v0.${kubernetes#1.}|p" "$module"
} >go.mod
printf 'package built\n\nimport (\n' >built.go
printf '\t_ "k8s.io/kubernetes/cmd/%s"\n' kube-apiserver kube-controller-manager >>built.go
printf ')\n' >>built.go
# What the API server says of itself, which charts look at.
version=k8s.io/component-base/version
says="-s -w -X $version.gitVersion=v$kubernetes -X $version.gitMajor=${kubernetes%%.*} -X $version.gitMinor=$(cut -d. -f2 <<<"$kubernetes")"
for name in kube-apiserver kube-controller-manager; do
  [ -x "$folder/$name" ] || nice go build -ldflags="$says" -o "$folder/$name" "k8s.io/kubernetes/cmd/$name"
done
command -v helm >/dev/null || [ -x "$folder/helm" ] || GOBIN=$folder nice go install -ldflags="-s -w" "helm.sh/helm/v3/cmd/helm@$helm"
