# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The services in the image: entrypoint.sh with stand-ins of sshd and Jupyter, healthcheck.py against real sockets."""

from __future__ import annotations

import os
import socketserver
import subprocess
import sys
import threading
import typing as t
from contextlib import contextmanager
from pathlib import Path

import pytest
from role_files import REPOSITORY

FILES = REPOSITORY / "roles" / "pytorch_image" / "files"
KEYS = "ssh-ed25519 AAAAC3Nz one@example.com\nssh-ed25519 AAAAC3Nz two@example.com"
TOKEN = "0123456789abcdef"
PORTS = {"ROCE_SSH_PORT": "2222", "ROCE_JUPYTER_PORT": "8888", "ROCE_JUPYTER_ADDRESS": "127.0.0.1"}
# The command of the container: it waits for Jupyter, which is started beside it, and prints its own environment.
COMMAND = 'while [ -n "$WAIT" ] && [ ! -e "$SAID/jupyter" ]; do sleep 0.02; done; env'


class Container:
    """What stands in for the container: a home, and programs that tell how they were called."""

    def __init__(self, folder: Path) -> None:
        self.home, self.said, self.programs = folder / "home", folder / "said", folder / "bin"
        for made in (self.home, self.said, self.programs):
            made.mkdir()
        self.program("sshd", 'echo "$@" > "$SAID/sshd"')
        self.program("jupyter", 'echo "$@" > "$SAID/.jupyter"; env > "$SAID/env"; mv "$SAID/.jupyter" "$SAID/jupyter"')
        self.program("ssh-keygen", 'for last; do :; done; echo "key of $$" > "$last"')
        self.program("mkdir", 'case "$*" in */run/sshd) echo "$@" > "$SAID/mkdir";; *) exec /bin/mkdir "$@";; esac')
        self.user(1000)
        # sshd wants to be started by its full path.
        entrypoint = (FILES / "entrypoint.sh").read_text()
        assert "/usr/sbin/sshd" in entrypoint
        self.entrypoint = folder / "entrypoint.sh"
        self.entrypoint.write_text(entrypoint.replace("/usr/sbin/sshd", str(self.programs / "sshd")))

    def program(self, name: str, script: str) -> None:
        (self.programs / name).write_text(f"#!/bin/sh\n{script}\n")
        (self.programs / name).chmod(0o755)

    def user(self, uid: int) -> None:
        self.program("id", f"echo {uid}")

    def start(self, **env: str) -> subprocess.CompletedProcess[str]:
        own = {"PATH": f"{self.programs}:{os.environ['PATH']}", "HOME": str(self.home), "SAID": str(self.said)}
        argv = ["/bin/sh", str(self.entrypoint), "sh", "-c", COMMAND]
        env = {**PORTS, **own, **env}
        return subprocess.run(argv, capture_output=True, text=True, check=False, env=env, timeout=60)

    def told(self, name: str) -> str:
        """How a program was called; empty when it was not."""
        return (self.said / name).read_text().strip() if (self.said / name).exists() else ""

    def own(self, name: str) -> Path:
        """A file of the entrypoint."""
        return self.home / ".roce" / name


@pytest.fixture
def container(tmp_path: Path) -> Container:
    return Container(tmp_path)


def test_without_key_and_token_only_the_command_runs(container: Container) -> None:
    done = container.start()
    assert done.returncode == 0 and "ROCE_SSH_PORT=2222" in done.stdout
    assert (container.told("sshd"), container.told("jupyter")) == ("", "")
    assert list((container.home / ".roce").iterdir()) == []


def test_with_a_key_sshd_takes_keys_alone(container: Container) -> None:
    done = container.start(SSH_AUTHORIZED_KEYS=KEYS)
    assert done.returncode == 0, done.stderr
    assert container.told("sshd") == f"-f {container.own('sshd_config')} -E {container.own('sshd.log')}"
    assert container.own("authorized_keys").read_text() == f"{KEYS}\n"
    config = dict(line.split(" ", 1) for line in container.own("sshd_config").read_text().splitlines())
    assert config["Port"] == "2222" and config["AuthorizedKeysFile"] == str(container.own("authorized_keys"))
    assert config["AuthenticationMethods"] == "publickey"
    assert {config[way] for way in config if "Password" in way or "Interactive" in way} == {"no"}
    assert config["PermitRootLogin"] == "prohibit-password"
    assert container.own("has_sshd").exists() and not container.own("has_jupyter").exists()
    assert "AAAAC3Nz" not in done.stdout, "the command needs no keys"
    for name in ("authorized_keys", "host_key", "sshd_config"):
        assert container.own(name).stat().st_mode & 0o077 == 0


def test_a_host_key_is_made_once_in_each_container(container: Container) -> None:
    container.start(SSH_AUTHORIZED_KEYS=KEYS)
    first = container.own("host_key").read_text()
    container.start(SSH_AUTHORIZED_KEYS=KEYS)
    assert container.own("host_key").read_text() == first


@pytest.mark.parametrize("uid", [0, 1000])
def test_with_a_token_jupyter_has_it_and_nobody_else(container: Container, uid: int) -> None:
    container.user(uid)
    done = container.start(JUPYTER_TOKEN=TOKEN, WAIT="1")
    assert done.returncode == 0, done.stderr
    called = container.told("jupyter").split()
    assert called[0] == "lab" and {"--ip=127.0.0.1", "--port=8888", "--port-retries=0"} <= set(called)
    assert ("--allow-root" in called) is (uid == 0)
    assert f"JUPYTER_TOKEN={TOKEN}" in container.told("env").splitlines()
    assert TOKEN not in " ".join(called) + done.stdout
    assert container.own("has_jupyter").exists() and not container.own("has_sshd").exists()


@pytest.mark.parametrize(("uid", "folder"), [(0, "-p -m 755 /run/sshd"), (1000, "")])
def test_sshd_of_root_has_its_folder(container: Container, uid: int, folder: str) -> None:
    container.user(uid)
    container.start(SSH_AUTHORIZED_KEYS=KEYS)
    assert container.told("mkdir") == folder


def test_an_sshd_that_does_not_start_ends_the_container(container: Container) -> None:
    container.program("sshd", "echo 'Bad configuration' >&2; exit 255")
    done = container.start(SSH_AUTHORIZED_KEYS=KEYS)
    assert done.returncode == 255 and "Bad configuration" in done.stderr and done.stdout == ""
    assert not container.own("has_sshd").exists()


# -- healthcheck ---------------------------------------------------------------------------------


@contextmanager
def speaking(answer: bytes, *, listens_first: bool) -> t.Iterator[int]:
    """A port on which everybody is told the same."""

    class Speaker(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            if listens_first:
                self.request.recv(4096)
            self.request.sendall(answer)

    with socketserver.TCPServer(("127.0.0.1", 0), Speaker) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


def healthcheck(home: Path, service: str, port: int, address: str = "127.0.0.1") -> tuple[int, str]:
    """Exit status and message, where this service was started and the other one not."""
    (home / ".roce").mkdir(exist_ok=True)
    (home / ".roce" / f"has_{service}").touch()
    env = {**os.environ, "HOME": str(home), f"ROCE_{'SSH' if service == 'sshd' else 'JUPYTER'}_PORT": str(port)}
    env |= {"ROCE_JUPYTER_ADDRESS": address, "http_proxy": "http://192.0.2.1:9"}
    argv = [sys.executable, str(FILES / "healthcheck.py")]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, env=env, timeout=60)
    return done.returncode, done.stderr


def test_healthy_where_nothing_was_started(tmp_path: Path) -> None:
    assert healthcheck(tmp_path, "nothing", 9) == (0, "")


HTTP = b"HTTP/1.1 %s\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


@pytest.mark.parametrize(
    ("service", "answer", "status", "said"),
    [
        ("sshd", b"SSH-2.0-OpenSSH_9.2\r\n", 0, ""),
        ("sshd", b"220 smtp\r\n", 1, "sshd: sshd does not greet"),
        ("jupyter", HTTP % b"200 OK", 0, ""),
        ("jupyter", HTTP % b"503 Service Unavailable", 1, "jupyter: HTTP Error 503"),
        ("jupyter", b"SSH-2.0-OpenSSH_9.2\r\n", 1, "jupyter: SSH-2.0"),
    ],
)
def test_a_service_is_healthy_when_it_answers(
    tmp_path: Path, service: str, answer: bytes, status: int, said: str
) -> None:
    with speaking(answer, listens_first=service == "jupyter") as port:
        code, message = healthcheck(tmp_path, service, port)
    assert code == status and message.startswith(said) and len(message.splitlines()) == status


def test_jupyter_on_all_addresses_is_asked_on_this_host(tmp_path: Path) -> None:
    with speaking(HTTP % b"200 OK", listens_first=True) as port:
        assert healthcheck(tmp_path, "jupyter", port, "0.0.0.0") == (0, "")


@pytest.mark.parametrize("service", ["sshd", "jupyter"])
def test_a_service_that_is_gone_is_not_healthy(tmp_path: Path, service: str) -> None:
    with speaking(b"", listens_first=False) as port:
        pass
    code, message = healthcheck(tmp_path, service, port)
    assert code == 1 and message.startswith(f"{service}: ") and "refused" in message
