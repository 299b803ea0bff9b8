# Development of lossless.roce. `make help` lists the targets.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.NOTPARALLEL:
MAKEFLAGS += --no-builtin-rules

PYTHON ?= python3
NODES ?= 2
RAILS ?= 1
NODE ?= 1
ARGS ?=

VENV := build/venv
BIN := $(VENV)/bin
LABCTL := tests/lab/labctl.py
# A stamp is named after the interpreter: a newer python3 makes a new environment.
PYVERSION := $(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null || echo none)
STAMPS := build/.stamps
SYSTEM := $(STAMPS)/system
BROWSER := $(STAMPS)/browser
ENVIRONMENT := $(STAMPS)/venv-$(PYVERSION)
DOCS := $(STAMPS)/docs-$(PYVERSION)
LINK := build/collections/ansible_collections/lossless/roce
READY := $(ENVIRONMENT) $(LINK)
export ANSIBLE_CONFIG := $(CURDIR)/ansible.cfg
# Tools find each other (ansible-lint calls ansible-playbook) without the environment being activated.
export PATH := $(CURDIR)/$(BIN):$(PATH)

say = @printf '\033[1m== %s\033[0m\n' "$(1)"

.DEFAULT_GOAL := help
.PHONY: help setup lint unit sanity test test-full demo bench docs build clean lab-up lab-ssh lab-down

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-11s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))
	@echo "ARGS='-k name' goes to pytest. Lab targets need root."

setup: $(SYSTEM) $(READY) ## packages of the system (root), build/venv, the link under build/collections

lint: $(READY) ## linters, types, ansible-test sanity, build, layering
	$(BIN)/python -m pytest tests/lint $(ARGS)

unit: $(READY) ## unit tests: no root, no network, seconds
	$(BIN)/python -m pytest tests/unit $(ARGS)

sanity: $(READY) ## ansible-test sanity alone
	$(BIN)/python -m pytest tests/lint -k sanity $(ARGS)

test: $(SYSTEM) $(BROWSER) $(READY) ## lint, unit and lab tests in one run, without those marked full
	@$(BIN)/python -m pytest tests/lint tests/unit tests/lab -m "not full" $(ARGS)

test-full: $(SYSTEM) $(BROWSER) $(READY) ## everything, with those marked full
	@$(BIN)/python -m pytest tests/lint tests/unit tests/lab $(ARGS)

demo: $(SYSTEM) $(READY) ## the main job from end to end on two lab nodes
	@$(BIN)/python tests/lab/demo.py

bench: $(SYSTEM) $(READY) ## benchmarks; their figures are in docs/benchmarks
	@$(BIN)/python -m pytest tests/benchmarks $(ARGS)

lab-up: $(SYSTEM) $(READY) ## boot a lab: NODES=2 RAILS=1
	@$(BIN)/python $(LABCTL) up --nodes $(NODES) --rails $(RAILS)

lab-ssh: ## a shell on a lab node: NODE=1
	@$(PYTHON) $(LABCTL) ssh $(NODE)

lab-down: ## take the lab down
	@$(PYTHON) $(LABCTL) down

docs: $(READY) $(DOCS) ## the documentation of the plugins as HTML: build/site/build/html
	rm -rf build/site
	mkdir -p -m 700 build/site
	ANSIBLE_COLLECTIONS_PATH=$(CURDIR)/build/collections $(BIN)/antsibull-docs sphinx-init --use-current \
		--squash-hierarchy --lenient --fail-on-error --dest-dir build/site lossless.roce
	sed -i '/^intersphinx_mapping = {/,/^}/c intersphinx_mapping = {}' build/site/conf.py
	cd build/site && ANSIBLE_COLLECTIONS_PATH=$(CURDIR)/build/collections ./build.sh

build: $(READY) ## the collection's archive: build/dist
	$(BIN)/ansible-galaxy collection build --force --output-path build/dist

clean: ## take labs down and remove all that was built; the lab's image stays in its cache
	@[ ! -d build/lab ] || for lab in $$(ls build/lab); do $(PYTHON) $(LABCTL) down --name "$$lab"; done
	rm -rf build .ansible .hypothesis .mypy_cache .pytest_cache .ruff_cache tests/output

# The lab's command goes first: it refreshes the package lists where anything is missing. So the
# second install works from fresh lists, and refreshes them itself only where they are still stale.
$(SYSTEM): tests/lab/roce_lab/host.py
	$(call say,system packages)
	@missing=""; \
	$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || missing="$$missing python3-venv"; \
	command -v git >/dev/null || missing="$$missing git"; \
	command -v ssh >/dev/null || missing="$$missing openssh-client"; \
	if $(PYTHON) $(LABCTL) deps >/dev/null 2>&1 && [ -z "$$missing" ]; then echo "all there"; \
	elif [ "$$(id -u)" != 0 ]; then \
		$(PYTHON) $(LABCTL) deps || true; \
		echo "system packages are missing; run 'make setup' as root once$${missing:+ (apt-get install$$missing)}" >&2; \
		exit 1; \
	else \
		$(PYTHON) $(LABCTL) deps --install; \
		if [ -n "$$missing" ]; then \
			export DEBIAN_FRONTEND=noninteractive; \
			get="apt-get install -q -y --no-install-recommends $$missing"; \
			$$get || { apt-get update -q && $$get; }; \
		fi; \
	fi
	@mkdir -p $(@D) && touch $@

# For the tests of the report's page, which are skipped without it. Debian has it as a plain package (20 s, 300 MB);
# elsewhere, and without root, the tests go on without.
$(BROWSER):
	$(call say,chromium)
	@if command -v chromium >/dev/null && command -v chromedriver >/dev/null; then echo "all there"; \
	elif [ "$$(id -u)" != 0 ] || ! grep -qs '^ID=debian' /etc/os-release; then \
		echo "chromium and chromedriver are not installed: the tests of the report's page are skipped"; exit 0; \
	else \
		export DEBIAN_FRONTEND=noninteractive; \
		get="apt-get install -q -y --no-install-recommends chromium chromium-driver"; \
		$$get || { apt-get update -q && $$get; } || echo "chromium: not installed; the tests of the page are skipped"; \
	fi
	@mkdir -p $(@D) && touch $@

$(ENVIRONMENT): requirements-dev.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
		{ echo "Python 3.11 or newer is needed, and $(PYTHON) is $(PYVERSION); try make PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
		{ echo "$(PYTHON) has no venv; run 'make setup' as root, or apt-get install python3-venv" >&2; exit 1; }
	$(call say,Python $(PYVERSION) environment in $(VENV): about half a GB and one or two minutes)
	@rm -rf $(VENV) $(STAMPS)/venv-* $(STAMPS)/docs-*
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --upgrade pip
	@$(BIN)/python -m pip install -qq --disable-pip-version-check -r requirements-dev.txt
	@$(BIN)/python -m pip check
	@$(BIN)/ansible --version | sed -n 1p
	@mkdir -p $(@D) && touch $@

$(DOCS): requirements-docs.txt $(ENVIRONMENT)
	$(call say,Sphinx)
	@$(BIN)/python -m pip install -qq --disable-pip-version-check -r requirements-dev.txt -r requirements-docs.txt
	@touch $@

# A link is enough for everything but ansible-test. make would follow it, so whether it is right is looked at each time:
# a copy that ansible-galaxy put in its place would be run by demo and tests, and go stale.
.PHONY: $(LINK)
$(LINK):
	@if [ -d $@ ] && [ ! -L $@ ]; then \
		echo "$@: a folder, where a link to this repository was expected;" \
			"remove it (rm -r $@), and install with 'ansible-galaxy collection install … -p ~/.ansible/collections'" >&2; \
		exit 1; \
	fi
	@mkdir -p $(@D)
	@[ $@ -ef . ] || ln -sfn ../../../.. $@
