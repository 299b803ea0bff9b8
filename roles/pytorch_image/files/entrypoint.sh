#!/bin/sh
# Starts the services that this container asks for, then the command. Without a key there is no sshd, without a token
# no Jupyter; there are no passwords.
set -eu

folder=${HOME:-/root}/.roce
umask 077
mkdir -p "$folder"

if [ -n "${SSH_AUTHORIZED_KEYS:-}" ]; then
    printf '%s\n' "$SSH_AUTHORIZED_KEYS" > "$folder/authorized_keys"
    # A key of this container alone: one in the image would be everybody's.
    [ -e "$folder/host_key" ] || ssh-keygen -q -t ed25519 -N '' -f "$folder/host_key"
    cat > "$folder/sshd_config" <<END
Port $ROCE_SSH_PORT
HostKey $folder/host_key
AuthorizedKeysFile $folder/authorized_keys
PidFile $folder/sshd.pid
AuthenticationMethods publickey
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitEmptyPasswords no
PermitRootLogin prohibit-password
UsePAM no
X11Forwarding no
Subsystem sftp internal-sftp
END
    if [ "$(id -u)" = 0 ]; then mkdir -p -m 755 /run/sshd; fi
    /usr/sbin/sshd -f "$folder/sshd_config" -E "$folder/sshd.log"
    : > "$folder/has_sshd"
fi

if [ -n "${JUPYTER_TOKEN:-}" ]; then
    # The token reaches Jupyter by its environment: a command line is everybody's to read.
    as_root=
    if [ "$(id -u)" = 0 ]; then as_root=--allow-root; fi
    # shellcheck disable=SC2086  # empty, or one word
    jupyter lab $as_root --no-browser --ip="$ROCE_JUPYTER_ADDRESS" --port="$ROCE_JUPYTER_PORT" --port-retries=0 \
        > "$folder/jupyter.log" 2>&1 &
    : > "$folder/has_jupyter"
fi

unset SSH_AUTHORIZED_KEYS JUPYTER_TOKEN
exec "$@"
