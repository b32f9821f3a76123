#!/bin/sh
# What stands before the command of a container, where images of Vault and OpenBao have it: their charts call
# `docker-entrypoint.sh vault server …` and `docker-entrypoint.sh bao server …`.
#
# Nothing is changed in ownership or capabilities, since the image runs as nobody in particular; SKIP_CHOWN and SKIP_SETCAP have nothing to skip.
set -e
ulimit -c 0

case "$1" in
  kallisto | vault | bao) ;;
  server)
    shift
    case " $*" in
      *" -config"*) ;;
      *)
        # A folder without a file is no configuration, and a dev server needs none.
        for folder in /kallisto/config /vault/config /openbao/config; do
          for file in "$folder"/*.hcl "$folder"/*.json; do
            if [ -e "$file" ]; then
              set -- "-config=$folder" "$@"
              break
            fi
          done
        done
        ;;
    esac
    set -- kallisto server "$@"
    ;;
  # A path is a program of its own, anything else a command of ours.
  */* | sh) exec "$@" ;;
  *) set -- kallisto "$@" ;;
esac

# From outside of a container nobody reaches its loopback address.
if [ -z "$KALLISTO_DEV_LISTEN_ADDRESS$BAO_DEV_LISTEN_ADDRESS$VAULT_DEV_LISTEN_ADDRESS" ]; then
  export KALLISTO_DEV_LISTEN_ADDRESS=0.0.0.0:8200
fi
exec "$@"
