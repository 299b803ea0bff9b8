# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Healthcheck of the container: the services that were started answer. Healthy where none was."""

from __future__ import annotations

import http.client
import os
import socket
import sys
import urllib.request

FOLDER = os.path.join(os.environ.get("HOME", "/root"), ".roce")


def started(service: str) -> bool:
    """Whether the entrypoint has started it."""
    return os.path.exists(os.path.join(FOLDER, f"has_{service}"))


def check_sshd() -> None:
    """sshd greets."""
    with socket.create_connection(("127.0.0.1", int(os.environ["ROCE_SSH_PORT"])), timeout=5) as connection:
        if not connection.recv(4) == b"SSH-":
            raise OSError("sshd does not greet")


def check_jupyter() -> None:
    """Jupyter answers what needs no token."""
    address = os.environ["ROCE_JUPYTER_ADDRESS"].replace("0.0.0.0", "127.0.0.1")
    url = f"http://{address}:{os.environ['ROCE_JUPYTER_PORT']}/api"
    urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url, timeout=5).close()


def main() -> int:
    """0 when all is well."""
    for service, check in (("sshd", check_sshd), ("jupyter", check_jupyter)):
        if started(service):
            try:
                check()
            except (OSError, http.client.HTTPException) as exc:
                print(f"{service}: {str(exc).strip()}", file=sys.stderr)
                return 1
    return 0


sys.exit(main())
