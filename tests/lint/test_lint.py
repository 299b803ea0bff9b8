# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Linters, types, sanity, the archive and the layering. One test runs one tool and shows what it printed."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import tarfile
import typing as t
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
PLUGINS = ROOT / "plugins"
MODULE_UTILS = PLUGINS / "module_utils"
COLLECTIONS = ROOT / "build" / "collections"
PYTHON = f"{sys.version_info[0]}.{sys.version_info[1]}"


def call(*argv: str | Path, cwd: Path = ROOT, **env: str) -> tuple[int, str]:
    """Exit status and output of a tool."""
    done = subprocess.run(
        [str(word) for word in argv],
        cwd=cwd,
        env={**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", "NO_COLOR": "1", **env},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=900,
        check=False,
    )
    return done.returncode, done.stdout


def run(*argv: str | Path, cwd: Path = ROOT, **env: str) -> str:
    """Output of a tool; a non-zero exit status fails the test with that output and no traceback."""
    status, output = call(*argv, cwd=cwd, **env)
    if status:
        pytest.fail(f"{' '.join(map(str, argv))}: exit status {status}\n{output}", pytrace=False)
    return output


def fail_on(problems: t.Collection[str]) -> None:
    """Fail with one line for each problem."""
    if problems:
        pytest.fail("\n".join(sorted(problems)), pytrace=False)


def repository_files() -> list[Path]:
    """What belongs to the repository, committed or about to be, relative to its root."""
    listed = run("git", "ls-files", "-co", "--exclude-standard", "-z").split("\0")
    return [Path(name) for name in sorted(set(listed)) if name and (ROOT / name).is_file()]


def sources(folder: Path) -> list[Path]:
    """Python files below a folder; there must be some, or a moved folder would pass unseen."""
    found = sorted(folder.rglob("*.py"))
    assert found, f"{folder} holds no Python file"
    return found


# --- tools ------------------------------------------------------------------------------------------------------


def test_ruff_check() -> None:
    run(BIN / "ruff", "check", "--output-format", "concise", ".")


def test_ruff_format() -> None:
    run(BIN / "ruff", "format", "--check", "--output-format", "concise", ".")


def test_mypy() -> None:
    folders = [name for name in ("plugins", "tests/lab", "tools") if (ROOT / name).is_dir()]
    run(BIN / "mypy", *folders)


def test_yamllint() -> None:
    run(BIN / "yamllint", "--strict", ".")


def test_ansible_lint() -> None:
    run(BIN / "ansible-lint", "--offline", "--nocolor", ANSIBLE_COLLECTIONS_PATH=str(COLLECTIONS))


def test_documentation_of_plugins() -> None:
    words = ("--plugin-docs", "--skip-rstcheck", "--validate-collection-refs", "self", ".")
    run(BIN / "antsibull-docs", "lint-collection-docs", *words, ANSIBLE_COLLECTIONS_PATH=str(COLLECTIONS))


def test_changelog() -> None:
    run(BIN / "antsibull-changelog", "lint")


def test_option_tables_of_roles() -> None:
    run(sys.executable, "tools/role_docs.py", "--check")


# --- ansible-test and the archive -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The collection as users get it."""
    folder = tmp_path_factory.mktemp("archive")
    run(BIN / "ansible-galaxy", "collection", "build", "--output-path", folder)
    (built,) = folder.glob("lossless-roce-*.tar.gz")
    return built


def sanity_tree(base: Path, archive: Path) -> Path:
    """The archive's content as ansible-test wants it: below ansible_collections, and a work tree of its own.

    Without its own .git it would be below a folder that git ignores, and ansible-test would see no file.
    """
    tree = base / "ansible_collections" / "lossless" / "roce"
    shutil.rmtree(tree, ignore_errors=True)
    tree.mkdir(parents=True)
    with tarfile.open(archive) as content:
        content.extractall(tree, filter="data")
    run("git", "init", "-q", tree)
    return tree


def sanity_home(base: Path) -> Path:
    """A home folder with a stand-in for the pip installer that ansible-test would download: Python's own."""
    home = base / "home"
    cache = home / ".ansible" / "test" / "cache"
    cache.mkdir(parents=True, exist_ok=True)
    for version in ("24_2", "25_2"):  # ansible-core 2.19; 2.20 and 2.21
        (cache / f"get_pip_{version}.py").write_text("import ensurepip\nensurepip.bootstrap()\n")
    return home


def test_ansible_test_sanity(archive: Path) -> None:
    """Its first run installs each test's own tools from the package index, its next ones take seconds."""
    base = ROOT / "build" / "sanity"
    home, tree = sanity_home(base), sanity_tree(base, archive)
    argv = (BIN / "ansible-test", "sanity", "--python", PYTHON, "--color", "no", "--truncate", "0")
    status, output = call(*argv, cwd=tree, HOME=str(home))
    log = base / "output.txt"
    log.write_text(output)
    if status:
        told = [line for line in output.splitlines() if line.startswith(("ERROR:", "FATAL:"))]
        failed = output.partition("FATAL: The ")[2].splitlines()[1:]
        pytest.fail("\n".join([*(told or [output]), *failed, f"all of it: {log}"]), pytrace=False)
    ran = re.findall(r"^Running sanity test ['\"]([\w-]+)['\"]", output, re.MULTILINE)
    if "All targets skipped" in output or not {"validate-modules", "compile", "import", "pylint"} <= set(ran):
        pytest.fail(f"ansible-test passed without looking at anything:\n{output}", pytrace=False)


def test_archive(archive: Path) -> None:
    """The built collection holds what users need and nothing of the development tree."""
    with tarfile.open(archive) as content:
        names = set(content.getnames())
    kept = {"plugins", "roles", "playbooks", "meta", "docs", "inventories", "changelogs", "tests"}
    single = {"MANIFEST.json", "FILES.json", "README.md", "CHANGELOG.md", "LICENSE"}
    problems = [f"{name}: is in the archive" for name in names if Path(name).parts[0] not in kept | single]
    junk = re.compile(
        r"(^|/)(__pycache__|\.[^/]+|[^/]+\.py[co]|tests/(lab|lint|unit|output|benchmarks)|inventories/lab)(/|$)"
    )
    problems += [f"{name}: is in the archive" for name in names if junk.search(name)]
    needed = [str(name) for name in repository_files() if name.parts[0] in {"plugins", "roles", "playbooks", "meta"}]
    problems += [f"{name}: is not in the archive" for name in {*needed, *single} - names]
    fail_on(problems)


def test_action_group() -> None:
    """Users set defaults for the group: it names every module, and nothing else."""
    runtime = yaml.safe_load((ROOT / "meta" / "runtime.yml").read_text())
    group = runtime["action_groups"]["all"]
    modules = {path.stem for path in (PLUGINS / "modules").glob("*.py")}
    # A stub beside an action plugin carries its documentation; it shares no options with the modules.
    actions = {path.stem for path in (PLUGINS / "action").glob("*.py")}
    problems = [f"meta/runtime.yml: {name} is in the group and no module" for name in set(group) - modules]
    problems += [f"meta/runtime.yml: module {name} is not in the group" for name in modules - actions - set(group)]
    problems += [f"meta/runtime.yml: {name} is there twice" for name in set(group) if group.count(name) > 1]
    fail_on(problems)


def test_no_result_has_a_key_that_ansible_reads_for_itself() -> None:
    """A dict named `skipped` that is not empty makes Ansible take the whole task for skipped."""
    reserved = {"skipped", "failed", "unreachable", "results", "rc", "exception", "deprecations", "warnings"}
    found = []
    for path in sources(PLUGINS / "modules"):
        text = re.search(r'^RETURN = r"""(.*?)^"""', path.read_text(), re.DOTALL | re.MULTILINE)
        assert text, f"{path} has no RETURN"
        found += [f"{path.name}: {key}" for key in reserved & set(yaml.safe_load(text.group(1)) or {})]
    fail_on(found)


# --- layering ---------------------------------------------------------------------------------------------------

PURE = ("settings", "parsers", "checks")  # state and text in, data out
NOT_IN_PURE = {"ansible", "os", "subprocess", "importlib", "pathlib", "shutil", "socket"}
DOORS = {"subprocess", "multiprocessing", "pty"}  # only host.py starts processes
# Calls that open a file or start a process without importing one of DOORS.
OPENERS = re.compile(r"^(open|io\.open|os\.(open|fdopen|popen|system|exec\w+|spawn\w+|posix_spawn\w*))$")


def imports(tree: ast.AST) -> t.Iterator[tuple[int, str]]:
    """Line and top-level name of every absolute import, wherever it stands."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name.split(".")[0]) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            yield node.lineno, node.module.split(".")[0]


def imports_at_top(body: t.Iterable[ast.stmt]) -> t.Iterator[tuple[int, str]]:
    """The same, for what runs when the file is imported: not functions, not what is for type checkers only."""
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            yield from imports_at_top(node.orelse)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            yield from imports(node)
        else:
            inner = [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.stmt)]
            handlers = [stmt for handler in getattr(node, "handlers", []) for stmt in handler.body]
            yield from imports_at_top([*inner, *handlers])


def opening_calls(tree: ast.AST) -> t.Iterator[tuple[int, str]]:
    """Line and name of every call that opens a file or starts a process."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and OPENERS.match(name := ast.unparse(node.func)):
            yield node.lineno, name


def layering_problems(where: str, text: str) -> list[str]:
    """What a file of module_utils, named relative to it, does that its layer must not do."""
    tree = ast.parse(text)
    used = list(imports(tree))
    at = f"plugins/module_utils/{where}"
    problems = [f"{at}:{line}: imports ansible at module level" for line, name in imports_at_top(tree.body)
                if name == "ansible"]  # fmt: skip
    problems += [f"{at}:{line}: imports importlib; only static imports reach a node" for line, name in used
                 if name == "importlib"]  # fmt: skip
    if where != "host.py":
        problems += [f"{at}:{line}: imports {name}; only host.py may" for line, name in used if name in DOORS]
        problems += [f"{at}:{line}: calls {name}(); only host.py may" for line, name in opening_calls(tree)]
    if Path(where).parts[0] in PURE:
        problems += [f"{at}:{line}: imports {name}, and is a pure layer" for line, name in used if name in NOT_IN_PURE]
    return problems


def test_layering() -> None:
    problems = []
    for path in sources(MODULE_UTILS):
        problems += layering_problems(path.relative_to(MODULE_UTILS).as_posix(), path.read_text())
    fail_on(problems)


@pytest.mark.parametrize(
    ("where", "text", "count"),
    [
        ("settings/x.py", "import os", 1),
        ("parsers/x.py", "from ansible.module_utils import basic", 2),
        ("checks/x.py", "def f():\n    open('x')", 1),
        ("checks/x.py", "def f(host):\n    return host.open('x')", 0),
        ("plan.py", "import subprocess", 1),
        ("plan.py", "import os\nos.popen('x')", 1),
        ("plan.py", "def f():\n    import ansible", 0),
        ("plan.py", "try:\n    import ansible\nexcept ImportError:\n    import ansible.errors", 2),
        ("plan.py", "import typing as t\nif t.TYPE_CHECKING:\n    import ansible", 0),
        ("fabric/x.py", "import importlib", 1),
        ("host.py", "import subprocess\nopen('x')", 0),
        ("settings/x.py", "from ..host import Host", 0),
    ],
)
def test_layering_is_seen(where: str, text: str, count: int) -> None:
    """The check itself: it must not be blind."""
    assert len(layering_problems(where, text)) == count


# --- the oldest Python of a node --------------------------------------------------------------------------------


def old_python() -> str | None:
    """A Python 3.9 that runs, if there is one; a shim of a version manager may be there and not run."""
    version = "import sys; print(*sys.version_info[:2])"
    managed = sorted((Path(os.environ.get("PYENV_ROOT", "/nonexistent")) / "versions").glob("3.9.*/bin/python3.9"))
    for candidate in [shutil.which("python3.9"), *map(str, managed)]:
        if candidate:
            argv = [candidate, "-c", version]
            done = subprocess.run(argv, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
            if done.returncode == 0 and done.stdout.split() == ["3", "9"]:
                return candidate
    return None


def test_syntax_of_python_3_9() -> None:
    problems = []
    for path in [*sources(MODULE_UTILS), *sources(PLUGINS / "modules")]:
        try:
            ast.parse(path.read_text(), feature_version=(3, 9))
        except SyntaxError as exc:
            problems.append(f"{path.relative_to(ROOT)}:{exc.lineno}: {exc.msg}")
    fail_on(problems)


def test_import_in_python_3_9() -> None:
    """All of module_utils compiles and imports there without Ansible: `X | Y` at run time and the like would not."""
    python = old_python()
    if python is None:
        pytest.skip("no Python 3.9 here; its syntax was checked by ast")
    script = (
        "import importlib, sys\n"
        "bad = 0\n"
        "for name in sys.argv[1:]:\n"
        "    try:\n"
        "        importlib.import_module(name)\n"
        "    except Exception as exc:\n"
        "        bad = 1\n"
        "        print(f'{name}: {type(exc).__name__}: {exc}')\n"
        "sys.exit(bad)\n"
    )
    prefix = "ansible_collections.lossless.roce.plugins.module_utils"
    names = [
        ".".join((prefix, *path.relative_to(MODULE_UTILS).with_suffix("").parts))
        for path in sources(MODULE_UTILS)
        if path.name != "__init__.py"
    ]
    run(python, "-B", "-c", script, *names, PYTHONPATH=str(COLLECTIONS))


# --- text -------------------------------------------------------------------------------------------------------

# Name and domain apart, so that this file does not hold what it looks for.
REGISTRIES = [
    ("pypi", "org"),
    ("pythonhosted", "org"),
    ("galaxy.ansible", "com"),
    ("npmjs", "org"),
    ("deb.debian", "org"),
    ("archive.ubuntu", "com"),
    ("hub.docker", "com"),
    ("registry-1.docker", "io"),
    ("quay", "io"),
    ("ghcr", "io"),
    ("nvcr", "io"),
]
HOMES = r"/(?:home|Users)/[\w.-]+/|/root/\.(?:pyenv|cache|cargo|local|ansible)\b"


def test_no_host_of_a_registry_and_no_home_path() -> None:
    """Nobody's machine and no registry is written into the repository."""
    registries = "|".join(re.escape(".".join(parts)) for parts in REGISTRIES)
    here = [rf"(?<![\w.]){re.escape(str(ROOT))}/"] if len(ROOT.parts) > 2 else []  # /src/ is no hint of a machine
    pattern = re.compile("|".join([rf"(?<![\w.-])(?:[\w-]+\.)*(?:{registries})\b", rf"(?<![\w.]){HOMES}", *here]))
    problems = []
    for name in repository_files():
        text = (ROOT / name).read_bytes().decode(errors="replace")
        problems += [
            f"{name}:{number}: {found[0]}"
            for number, line in enumerate(text.splitlines(), 1)
            for found in pattern.finditer(line)
        ]
    fail_on(problems)
