# Copyright (c) 2026, lossless.roce contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The Dockerfile that the role pytorch_image writes, and the files that it puts into the image."""

from __future__ import annotations

import os
import re
import subprocess
import typing as t
from pathlib import Path

import pytest
from role_files import evaluate, tasks


def instructions(**variables: t.Any) -> list[str]:
    """The instructions of the Dockerfile in their order, each on one line, without comments."""
    text = evaluate("pytorch_image", "{{ pytorch_image_dockerfile }}", pytorch_image_base="debian:12", **variables)
    joined = re.sub(r" *\\\n *", " ", re.sub(r"^#.*\n", "", text, flags=re.MULTILINE))
    return [line for line in joined.splitlines() if line]


def stand_in(folder: Path, name: str, script: str) -> None:
    """A program of a shell script, found before the system's own."""
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


def shell(script: str, programs: Path) -> subprocess.CompletedProcess[str]:
    """What docker would run for RUN."""
    env = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"}
    return subprocess.run(["/bin/sh", "-c", script], capture_output=True, text=True, check=False, env=env)


# -- the user ------------------------------------------------------------------------------------

# What getent says on Ubuntu 24.04, whose image has a user of its own.
UBUNTU = 'case "$2" in 1000|ubuntu) echo ubuntu:x:1000:1000:Ubuntu:/home/ubuntu:/bin/bash;; *) exit 2;; esac'


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({}, ""),
        ({"pytorch_image_uid": 1000}, "pytorch_image_uid: 1000 is ubuntu in debian:12 … another number was expected"),
        (
            {"pytorch_image_user": "ubuntu"},
            "pytorch_image_user: ubuntu is in debian:12 already … another name was expected",
        ),
    ],
)
def test_a_user_is_made_unless_the_base_has_one_of_that_name_or_number(
    tmp_path: Path, variables: dict[str, t.Any], said: str
) -> None:
    stand_in(tmp_path / "bin", "getent", UBUNTU)
    for name in ("useradd", "install"):
        stand_in(tmp_path / "bin", name, f"echo {name} $@")
    lines = instructions(**{"pytorch_image_user": "trainer", **variables})
    (step,) = (line for line in lines if "useradd" in line)
    done = shell(step[len("RUN ") :], tmp_path / "bin")
    assert (done.returncode != 0, done.stderr.strip()) == (bool(said), said)
    made = [
        "useradd --create-home --uid 10001 --shell /bin/bash trainer",
        "install -d -o trainer /workspace",
    ]
    assert done.stdout.splitlines() == ([] if said else made)
    assert f"USER {variables.get('pytorch_image_user', 'trainer')}" in lines[lines.index(step) :]


# -- secrets -------------------------------------------------------------------------------------

SECRET = "s3cr3t"
PROXY = f"http://me:{SECRET}@proxy.example.com:3128"
# The way in which docker's builder prints steps; the last line is its error.
FAILED_BUILD = f"""\
#7 [python 2/2] RUN pip install --index-url https://token:{SECRET}@pypi.example.com/simple torch
#7 0.413 WARNING: {PROXY}: connection refused
#7 ERROR: process "/bin/sh -c pip install" did not complete successfully: exit code: 1
ERROR: failed to solve: process "/bin/sh -c pip install --index-url https://a:{SECRET}@b/c" did not complete
"""


def told_of_a_build(**result: t.Any) -> tuple[str, list[str]]:
    """What a build that failed is told as: the message, and the lines of docker before it."""
    found = tasks("pytorch_image", "build")
    given: dict[str, t.Any] = {
        "pytorch_image_built": {"rc": 1, "msg": "Building pytorch-cuda:v2.8 failed", "stdout": "", **result},
        **found["Build the image, and tell without secrets how it ended"]["vars"],
    }
    message = evaluate("pytorch_image", found["End where the build failed"]["ansible.builtin.fail"]["msg"], **given)
    lines = evaluate("pytorch_image", found["Show the end of docker's output"]["ansible.builtin.debug"]["msg"], **given)
    return message, lines


def test_a_build_that_fails_shows_why_and_no_secret() -> None:
    message, lines = told_of_a_build(stderr=FAILED_BUILD)
    assert message.startswith("Building pytorch-cuda:v2.8 failed: ERROR: failed to solve")
    assert "#7 0.413 WARNING: http://***@proxy.example.com:3128: connection refused" in lines
    assert SECRET not in message + "".join(lines)


def test_what_the_role_itself_says_in_a_build_is_the_message() -> None:
    said = "pytorch_image_uid: 1000 is ubuntu in ubuntu:24.04 … another number was expected"
    step = '#5 [final 2/3] RUN if getent; then echo "pytorch_image_uid: 1000 is ${taken} …"; fi'
    assert told_of_a_build(stderr=f"{step}\n#5 0.213 {said}\n{FAILED_BUILD}")[0] == said


def test_a_build_that_was_ended_by_its_limit_says_so() -> None:
    ended = "async task did not complete within the requested time - 7200s"
    message, lines = told_of_a_build(msg=ended)
    assert (message, lines) == (ended, [])


def test_tasks_that_handle_secrets_print_none() -> None:
    build = tasks("pytorch_image", "build")
    assert build["Build the image"]["no_log"] is True
    written = build["Write the Dockerfile and what goes with it"]
    assert written["diff"] is False
    # With -v the items of a loop are printed.
    assert all(set(item) <= {"name", "mode"} for item in written["loop"])
    modes = {item["name"]: item.get("mode", "0600") for item in written["loop"]}
    assert modes["Dockerfile"] == modes["apt/mirror.sources"] == "0600"
    assert modes["ca.crt"] == "0644", "it is copied into the image as it is"
    fetch = build["Fetch the source of nccl-tests"]
    for url, hidden in ((f"https://me:{SECRET}@example.com/a.tar.gz", True), ("https://example.com/a.tar.gz", False)):
        assert evaluate("pytorch_image", fetch["no_log"], pytorch_image_nccl_tests_url=url) is hidden
    start = tasks("pytorch_image", "run")["Start the container"]
    services = {"pytorch_image_run": {"services": {"JUPYTER_TOKEN": SECRET}}}
    assert evaluate("pytorch_image", start["no_log"], **services) is True


# -- the Dockerfile ------------------------------------------------------------------------------


def stages(lines: list[str]) -> dict[str, list[str]]:
    """The instructions of each stage by its name."""
    found: dict[str, list[str]] = {}
    name = ""
    for line in lines:
        if line.startswith("FROM "):
            name = line.rpartition(" AS ")[2]
        found.setdefault(name, []).append(line)
    return found


def starting(lines: list[str], word: str) -> list[str]:
    """The instructions of one kind, without their word."""
    return [line[len(word) + 1 :] for line in lines if line.startswith(f"{word} ")]


def test_without_options_there_is_the_base_with_its_packages() -> None:
    lines = instructions()
    assert [line for line in lines if line.startswith("FROM")] == ["FROM debian:12 AS base", "FROM base AS final"]
    (run,) = starting(lines, "RUN")
    assert run.endswith("ibverbs-providers ibverbs-utils iproute2 libibverbs1 librdmacm1 numactl perftest rdma-core")
    assert starting(lines, "WORKDIR") == ["/workspace"] and starting(lines, "CMD") == ['["bash"]']
    assert not any(starting(lines, word) for word in ("USER", "ENTRYPOINT", "HEALTHCHECK", "COPY", "ARG", "ENV"))


def test_without_packages_nothing_is_run() -> None:
    assert starting(instructions(pytorch_image_apt_packages=[]), "RUN") == []


def test_the_frontend_that_was_named_is_the_first_line() -> None:
    text = evaluate("pytorch_image", "{{ pytorch_image_dockerfile }}", pytorch_image_syntax="docker/dockerfile:1.7")
    assert text.splitlines()[0] == "# syntax=docker/dockerfile:1.7"


def test_a_mirror_of_apt_takes_the_place_of_the_base_s_own_and_is_not_copied() -> None:
    lines = instructions(pytorch_image_apt_sources="URIs: http://mirror.example.com/debian")
    (run,) = starting(lines, "RUN")
    assert "--mount=type=bind,source=apt,target=/run/apt" in run
    mirror = "-o Dir::Etc::sourcelist=/dev/null -o Dir::Etc::sourceparts=/run/apt"
    assert run.count(f"apt-get {mirror} ") == run.count("apt-get ") == 2
    assert "mirror.example.com" not in "".join(lines) and starting(lines, "COPY") == []


def test_a_ca_is_trusted_in_all_stages_with_and_without_debian_s_tool(tmp_path: Path) -> None:
    (tmp_path / "site.pem").write_text("the certificate")
    given = {"pytorch_image_ca_file": str(tmp_path / "site.pem"), "pytorch_image_pip_packages": ["torch==2.8.0"]}
    base = stages(instructions(**given))["base"]
    assert starting(base, "COPY") == ["ca.crt /usr/local/share/ca-certificates/site.crt"]
    assert {line for line in instructions(**given) if line.startswith("FROM")} == {
        "FROM debian:12 AS base",
        "FROM base AS python",
        "FROM base AS final",
    }
    (run,) = starting(base, "RUN")
    (tmp_path / "etc").mkdir()
    (tmp_path / "site.crt").write_text("the certificate\n")
    here = run.replace("/usr/local/share/ca-certificates", str(tmp_path)).replace("/etc/ssl", f"{tmp_path}/etc/ssl")
    without = here.replace("update-ca-certificates", "no-such-program")
    assert shell(without, tmp_path / "bin").returncode == 0
    assert (tmp_path / "etc/ssl/certs/ca-certificates.crt").read_text() == "the certificate\n"
    stand_in(tmp_path / "bin", "update-ca-certificates", "echo updated")
    assert "updated" in shell(here, tmp_path / "bin").stdout


def test_python_packages_come_from_a_stage_whose_tools_stay_behind() -> None:
    found = stages(
        instructions(
            pytorch_image_pip_packages=["torch==2.8.0", "a>=1;b"],
            pytorch_image_pip_options=["--index-url", "https://pypi.example.com/simple?a=b&c"],
        )
    )
    install, pip = starting(found["python"], "RUN")
    assert install.endswith(" python3-pip")
    # A shell must not read what pip is to read.
    assert pip.endswith("--index-url 'https://pypi.example.com/simple?a=b&c' torch==2.8.0 'a>=1;b'")
    assert starting(found["final"], "COPY") == ["--from=python /opt/venv /opt/venv"]
    assert starting(found["final"], "ENV") == ["PATH=/opt/venv/bin:$PATH"]
    (final,) = starting(found["final"], "RUN")
    assert "python3-pip" not in final and "pypi.example.com" not in "".join(found["final"])


@pytest.mark.parametrize(
    ("base", "built_in"), [("", "base"), ("nvcr.example.com/cuda:devel", "nvcr.example.com/cuda:devel")]
)
def test_nccl_tests_are_built_in_a_stage_of_their_own(base: str, built_in: str) -> None:
    found = stages(
        instructions(
            pytorch_image_nccl_tests_url="https://example.com/nccl-tests.tar.gz",
            pytorch_image_nccl_tests_base=base,
            pytorch_image_nccl_tests_make=["MPI=1", "NVCC_GENCODE=-gencode arch=compute_90,code=sm_90"],
        )
    )
    assert found["nccl_tests"][0] == f"FROM {built_in} AS nccl_tests"
    (run,) = starting(found["nccl_tests"], "RUN")
    assert "MPI=1 'NVCC_GENCODE=-gencode arch=compute_90,code=sm_90' BUILDDIR=/opt/nccl-tests/built" in run
    assert starting(found["final"], "COPY") == ["--from=nccl_tests /opt/nccl-tests/built/*_perf /usr/local/bin/"]


@pytest.mark.parametrize("service", ["pytorch_image_sshd", "pytorch_image_jupyter"])
def test_a_service_brings_entrypoint_and_healthcheck(service: str) -> None:
    lines = instructions(**{service: True, "pytorch_image_ssh_port": 2200, "pytorch_image_jupyter_port": 8000})
    final = stages(lines)["final"]
    assert "--chmod=0755 entrypoint.sh healthcheck.py /usr/local/lib/roce/" in starting(final, "COPY")
    env = "ROCE_SSH_PORT=2200 ROCE_JUPYTER_PORT=8000 ROCE_JUPYTER_ADDRESS=127.0.0.1"
    assert env in starting(final, "ENV")
    assert starting(final, "ENTRYPOINT") == ['["/usr/local/lib/roce/entrypoint.sh"]']
    (health,) = starting(final, "HEALTHCHECK")
    assert health.endswith('CMD ["python3", "/usr/local/lib/roce/healthcheck.py"]')
    assert any("openssh-server" in run for run in starting(final, "RUN")) is (service == "pytorch_image_sshd")
    assert ("python" in stages(lines)) is (service == "pytorch_image_jupyter")


def test_labels_are_written_as_they_are() -> None:
    labels = starting(
        instructions(pytorch_image_labels={"site": 'rack "7"', "org.opencontainers.image.title": "mine"}), "LABEL"
    )
    assert 'site="rack \\"7\\""' in labels and 'org.opencontainers.image.base.name="debian:12"' in labels
    assert [label for label in labels if "title" in label] == ['org.opencontainers.image.title="mine"']


# -- proxy, registry and pruning -----------------------------------------------------------------


def test_a_proxy_is_given_to_the_build_and_stays_out_of_the_image() -> None:
    given = {"pytorch_image_build_args": {"HTTP_PROXY": PROXY}, "pytorch_image_build_network": "host"}
    build = tasks("pytorch_image", "build")["Build the image"]["community.docker.docker_image_build"]
    for name, value in (("args", {"HTTP_PROXY": PROXY}), ("network", "host"), ("nocache", False)):
        assert evaluate("pytorch_image", build[name], **given) == value
    assert instructions(**given) == instructions()


@pytest.mark.parametrize("changed", ["pytorch_image_build_args", "pytorch_image_apt_sources", "pytorch_image_tag"])
def test_another_recipe_is_built_anew(changed: str) -> None:
    values = {"pytorch_image_build_args": {"HTTP_PROXY": PROXY}}
    recipes = [
        evaluate("pytorch_image", "{{ pytorch_image_recipe }}", pytorch_image_base="debian:12", **variables)
        for variables in ({}, {}, {changed: values.get(changed, "other")})
    ]
    assert recipes[0] == recipes[1] != recipes[2]


REGISTRY = {"pytorch_image_registry": "192.0.2.11:5000/team"}


@pytest.mark.parametrize(("user", "logs_in"), [("", False), ("me", True)])
def test_only_a_user_logs_in_to_the_registry(user: str, logs_in: bool) -> None:
    login = tasks("pytorch_image", "apply")["Log in to the registry"]
    given = {**REGISTRY, "pytorch_image_registry_user": user, "pytorch_image_registry_password": SECRET}
    assert evaluate("pytorch_image", f"{{{{ {login['when']} }}}}", **given) is logs_in
    told = evaluate("pytorch_image", login["community.docker.docker_login"], **given)
    assert told == {"registry_url": "192.0.2.11:5000", "username": user, "password": SECRET}


@pytest.mark.parametrize(
    ("variables", "trusts"),
    [
        ({}, False),
        (REGISTRY, False),
        ({**REGISTRY, "pytorch_image_serve_registry": True}, True),
        ({**REGISTRY, "pytorch_image_registry_ca": "/a/ca.crt"}, True),
        ({"pytorch_image_registry_ca": "/a/ca.crt"}, False),
    ],
)
def test_a_registry_is_trusted_by_its_own_or_a_given_certificate(variables: dict[str, t.Any], trusts: bool) -> None:
    assert evaluate("pytorch_image", "{{ pytorch_image_trusts }}", **variables) is trusts


def test_the_certificate_goes_where_docker_looks_for_it(tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_text("given\n")
    copy = tasks("pytorch_image", "trust")["Trust the certificate of the registry"]["ansible.builtin.copy"]
    served = {"pytorch_image_certificate": {"content": "c2VydmVkCg=="}}
    given = {"pytorch_image_registry_ca": str(tmp_path / "ca.crt")}
    for variables, content in ((served, "served\n"), (given, "given\n")):
        told = evaluate("pytorch_image", copy, **REGISTRY, **variables)
        assert told == {"content": content, "dest": "/etc/docker/certs.d/192.0.2.11:5000/ca.crt", "mode": "0644"}


@pytest.mark.parametrize(
    ("registry", "name", "port"),
    [("192.0.2.11:5000", "IP:192.0.2.11", 5000), ("hub.example.com/a", "DNS:hub.example.com", 443)],
)
def test_a_served_registry_has_a_certificate_of_its_address(registry: str, name: str, port: int) -> None:
    make = tasks("pytorch_image", "registry")["Make the certificate of the registry"]["ansible.builtin.command"]
    argv = evaluate("pytorch_image", make, pytorch_image_registry=registry)["argv"]
    assert f"subjectAltName={name}" in argv
    template = "{{ lookup('ansible.builtin.template', 'registry.yml.j2') | from_yaml }}"
    http = evaluate("pytorch_image", template, pytorch_image_registry=registry)["http"]
    assert http["addr"] == f"{name.partition(':')[2]}:{port}"
    assert http["tls"]["certificate"] == argv[argv.index("-out") + 1]
    assert http["tls"]["key"] == argv[argv.index("-keyout") + 1]


RECIPE = "io.github.lossless-roce.recipe"


@pytest.mark.parametrize(
    ("asked", "image", "pruned"),
    [
        (True, {"Config": {"Labels": {RECIPE: "abc"}}}, True),
        (False, {"Config": {"Labels": {RECIPE: "abc"}}}, False),
        # An image from elsewhere does not tell which ones are older.
        (True, {"Config": {"Labels": {"maintainer": "somebody"}}}, False),
        (True, {"Config": {"Labels": None}}, False),
        (True, {}, False),
    ],
)
def test_older_images_of_this_role_are_pruned_on_request(asked: bool, image: dict[str, t.Any], pruned: bool) -> None:
    prune = tasks("pytorch_image", "apply")["Remove older images that no container uses"]
    given = {"pytorch_image_prune": asked, "pytorch_image_here": image}
    assert all(evaluate("pytorch_image", f"{{{{ {when} }}}}", **given) for when in prune["when"]) is pruned
    if pruned:
        told = evaluate("pytorch_image", prune["community.docker.docker_prune"], **given)
        assert told["images"] is True and not told.keys() & {"containers", "networks", "volumes", "builder_cache"}
        assert told["images_filters"] == {"dangling": False, "label": RECIPE, "label!": f"{RECIPE}=abc"}
