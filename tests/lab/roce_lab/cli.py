"""The command line of the lab."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from . import host
from .errors import Interrupted, LabError
from .image import cache_folder, ensure_image
from .lab import Lab, watch
from .process import Identity
from .progress import Progress
from .signals import interruptible
from .state import Shape


def parser() -> argparse.ArgumentParser:
    """All commands and their options."""
    top = argparse.ArgumentParser(prog="labctl.py", description=__doc__)
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    named = argparse.ArgumentParser(add_help=False)
    named.add_argument("--name", default="default", help="name of the lab (default: default)")
    _add_up(commands.add_parser("up", parents=[named], help="bring the lab up"))
    commands.add_parser("down", parents=[named], help="take the lab down, leaving nothing")
    status = commands.add_parser("status", parents=[named], help="say how the lab is")
    status.add_argument("--json", action="store_true", help="as JSON")
    _add_node_commands(commands, named)
    commands.add_parser("image", help="build the nodes' image only")
    deps = commands.add_parser("deps", help="check the tools of this host")
    deps.add_argument("--install", action="store_true", help="install what is missing (root)")
    guard = commands.add_parser("watch", parents=[named])  # started by up --owner-pid
    guard.add_argument("--marker")
    guard.add_argument("pid", type=int)
    guard.add_argument("start", type=int)
    return top


def _add_up(up: argparse.ArgumentParser) -> None:
    usual = Shape()
    up.add_argument("--nodes", type=int, default=usual.nodes, help="1 to 4")
    up.add_argument("--rails", type=int, default=usual.rails, help="ports of each node, 1 to 8")
    up.add_argument("--memory", type=int, default=usual.memory, metavar="MIB", help="of each node")
    up.add_argument("--rate", type=float, default=usual.mbits, metavar="MBITS", help="rate of every link in Mb/s")
    up.add_argument(
        "--flavour", choices=("inbox", "ofed"), default=usual.flavour, help="driver stack that the ports look like"
    )
    up.add_argument("--iommu", choices=("off", "on", "pt"), default=usual.iommu, help="on: translates; pt: passes")
    up.add_argument("--gpus", type=int, default=usual.gpus, help="GPUs (PCI functions only) beside the first ports")
    up.add_argument("--owner-pid", type=int, metavar="PID", help="take the lab down when this process dies")


def _add_node_commands(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], named: argparse.ArgumentParser
) -> None:
    on_node = argparse.ArgumentParser(add_help=False, parents=[named])
    on_node.add_argument("node", help="node1, node2, ... or its number")
    ssh = commands.add_parser("ssh", parents=[on_node], help="log in, or run a command")
    ssh.add_argument("argv", nargs=argparse.REMAINDER, metavar="-- COMMAND")
    shape = commands.add_parser("shape", parents=[on_node], help="set a link's rate")
    shape.add_argument("rail", type=int)
    shape.add_argument("mbits", type=float)
    link = commands.add_parser("link", parents=[on_node], help="take a link down or up")
    link.add_argument("rail", type=int)
    link.add_argument(
        "state", choices=("up", "down", "cut"), help="down: no carrier; cut: carrier, but no frame passes"
    )
    commands.add_parser("kill", parents=[on_node], help="take a node's power away")
    reboot = commands.add_parser("reboot", parents=[on_node], help="boot a node, dead or alive")
    reboot.add_argument("--hard", action="store_true", help="by the power switch")


def _up(args: argparse.Namespace) -> int:
    shape = Shape(args.nodes, args.rails, args.memory, args.rate, args.flavour, args.iommu, args.gpus)
    lab = Lab(args.name, shape, owner_pid=args.owner_pid)
    if lab.up():
        lab.progress(f"lab {lab.name} is up; inventory: {lab.inventory}")
    else:
        lab.progress(f"lab {lab.name} is up already: {lab.shape}")
    return 0


def _down(args: argparse.Namespace) -> int:
    lab = Lab(args.name)
    lab.progress(f"lab {lab.name} is down" if lab.down() else f"lab {lab.name} was not up")
    return 0


def _status(args: argparse.Namespace) -> int:
    status = Lab(args.name).status()
    print(json.dumps(status, indent=2) if args.json else _status_text(status))
    return 0


def _status_text(status: dict[str, object]) -> str:
    lines = [f"{key}: {value}" for key, value in status.items() if key != "nodes"]
    nodes = status.get("nodes", [])
    assert isinstance(nodes, list)
    for node in nodes:
        how = "up" if node["ssh"] else "not answering" if node["running"] else "off"
        lines.append(f"{node['name']}: {how}, ssh port {node['ssh_port']}, {' '.join(node['addresses'])}")
    return "\n".join(lines)


def _ssh(args: argparse.Namespace) -> int:
    node = Lab(args.name).node(args.node)
    command = args.argv[1:] if args.argv[:1] == ["--"] else args.argv
    # One word is a shell command; several are an argument vector.
    remote = command if len(command) < 2 else [shlex.join(command)]
    argv = [*node.ssh_argv(), *(["--", *remote] if remote else [])]
    os.execvp(argv[0], argv)


def _shape(args: argparse.Namespace) -> int:
    Lab(args.name).node(args.node).shape(args.rail, args.mbits)
    return 0


def _link(args: argparse.Namespace) -> int:
    Lab(args.name).node(args.node).link(args.rail, args.state)
    return 0


def _kill(args: argparse.Namespace) -> int:
    Lab(args.name).node(args.node).kill()
    return 0


def _reboot(args: argparse.Namespace) -> int:
    Lab(args.name).node(args.node).reboot(hard=args.hard)
    return 0


def _image(_args: argparse.Namespace) -> int:
    host.check_host()
    with interruptible():
        print(ensure_image(Progress()).folder)
    return 0


def _deps(args: argparse.Namespace) -> int:
    missing = host.missing_packages()
    if missing and args.install:
        host.install(missing)
        missing = host.missing_packages()
    if missing:
        raise LabError(host.describe_missing(missing))
    print(f"all there; images are kept in {cache_folder()}")
    return 0


def _watch(args: argparse.Namespace) -> int:
    watch(Lab(args.name), Identity(args.pid, args.start))
    return 0


COMMANDS = {
    "up": _up,
    "down": _down,
    "status": _status,
    "ssh": _ssh,
    "shape": _shape,
    "link": _link,
    "kill": _kill,
    "reboot": _reboot,
    "image": _image,
    "deps": _deps,
    "watch": _watch,
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; errors are one line on stderr and exit status 1."""
    args = parser().parse_args(argv)
    try:
        return COMMANDS[args.command](args)
    except LabError as exc:
        print(f"{Path(sys.argv[0]).name}: {exc}", file=sys.stderr)
        return 1
    except (Interrupted, KeyboardInterrupt) as exc:
        print(f"{Path(sys.argv[0]).name}: interrupted {exc}".rstrip(), file=sys.stderr)
        return 130
