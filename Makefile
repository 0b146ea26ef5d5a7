# The front door. `make` alone lists the targets and knobs. What a target does stands in mirage/commands/ and playbooks/; here is only
# what has to happen before Python can run, and the lists of the tools that test the project.

.DEFAULT_GOAL := help
# Targets share .venv, results/ and the cluster: one after another, whatever -j says.
.NOTPARALLEL:
MAKEFLAGS += --no-print-directory

# Variables given to make reach the programs below exactly as they were typed: make would expand a $ in them, so each is
# set again to its literal text, and no shell ever reads them. Their names are passed on too: a misspelt one is refused.
GIVEN := $(filter-out MAKE% -%,$(foreach v,$(.VARIABLES),$(if $(filter command,$(firstword $(origin $(v)))),$(v))))
$(foreach v,$(GIVEN),$(eval override $(v) := $$(value $(v))))
ifneq ($(GIVEN),)
export $(GIVEN)
endif
export MIRAGE_GIVEN := $(GIVEN)

PYTHON ?= python3
BIN := .venv/bin
CLI := @exec $(BIN)/python -m mirage
export ANSIBLE_CONFIG := $(CURDIR)/ansible.cfg
# Compiled modules are kept in .venv, whatever the user's shell says of them: without them each program takes 2 s longer to start.
unexport PYTHONDONTWRITEBYTECODE
export PYTHONPYCACHEPREFIX := $(CURDIR)/.venv/pycache
# The tools of .venv find each other; an older ansible elsewhere on PATH is never picked up.
export PATH := $(CURDIR)/$(BIN):$(PATH)

# The stamp carries what was installed in its name, and where: scripts in .venv hold the clone's path. It is written last, so
# an interrupted installation leaves none.
STAMP := .venv/installed-$(shell { pwd; cat requirements.txt; } | sha256sum | cut -c1-16)
ifeq ($(wildcard $(BIN)/python),)
.PHONY: $(STAMP)
endif

$(STAMP):
	@# Without -B, a Python that cannot be used would leave its compiled modules in .venv.
	@command -v $(PYTHON) >/dev/null || { echo 'wrong use: $(PYTHON) is missing: apt-get install python3 python3-venv'; exit 2; }
	@$(PYTHON) -B -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo 'wrong use: PYTHON: $(PYTHON) is older than 3.11; name a newer one, as in PYTHON=python3.12'; exit 2; }
	@$(PYTHON) -B -c 'import ensurepip, venv' 2>/dev/null || { echo 'wrong use: $(PYTHON) cannot make a virtual environment: apt-get install python3-venv'; exit 2; }
	@echo 'installing the locked packages into .venv, once (about a minute)'
	@rm -rf .venv
	@$(PYTHON) -m venv .venv
	@# Python compiles what is imported: all of Ansible's collections would take half a minute.
	@$(BIN)/python -m pip install --quiet --no-compile --no-deps --disable-pip-version-check -r requirements.txt
	@$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --no-index --disable-pip-version-check --editable .
	@touch $@

##@ Experiments

.PHONY: cluster
cluster: $(STAMP) ## build and start the emulated cluster
	$(CLI) $@

.PHONY: sandbox
sandbox: $(STAMP) ## a cluster for tools and courses, with work that goes on: shells of users, REST API, metrics (docs/sandbox.md)
	$(CLI) $@

.PHONY: pause
pause: $(STAMP) ## the sandbox's jobs and its work stand still until make resume
	$(CLI) $@

.PHONY: resume
resume: $(STAMP) ## they go on
	$(CLI) $@

.PHONY: experiment
experiment: $(STAMP) ## cluster, workload, replay, collection, metrics; results in results/RUN
	$(CLI) $@

.PHONY: compare
compare: $(STAMP) ## the same workload under several CONFIGS, REPLICAS times each: differences, intervals, equivalence
	$(CLI) $@

.PHONY: gate
gate: $(STAMP) ## may the slurm.conf AFTER replace BEFORE? runs both until LIMITS are decided; for CI (docs/gate.md)
	$(CLI) $@

.PHONY: search
search: $(STAMP) ## which values of settings of slurm.conf (TUNE) are best for GOAL, proven on other jobs (docs/search.md)
	$(CLI) $@

.PHONY: predict
predict: $(STAMP) ## when the waiting jobs of a site (SITE, of mirage-capture --now) start: 50 and 90 %, of all or one (JOB)
	$(CLI) $@

.PHONY: report
report: $(STAMP) ## make report.html of a finished run, sweep or comparison (RUN) again, from the files beside it
	$(CLI) $@

.PHONY: check
check: $(STAMP) ## compute every number of a finished run, sweep or comparison (RUN) again from its records, and compare
	$(CLI) $@

.PHONY: diff
diff: $(STAMP) ## the first job that starts at another instant in the second of two runs (RUNS), with both queues
	$(CLI) $@

.PHONY: why
why: $(STAMP) ## why the jobs of a finished run (RUN) waited, and what to try; of one (JOB) span by span
	$(CLI) $@

.PHONY: study
study: $(STAMP) ## a published comparison (STUDY): scms, suspend, cirrus, site, malleable, malleable-share or filler; FULL=yes: the published size
	@exec $(BIN)/python -m studies $(STUDY)

.PHONY: metrics
metrics: $(STAMP) ## metrics of a recorded schedule (TRACE), without any cluster
	$(CLI) $@

.PHONY: simulate
simulate: $(STAMP) ## the quick answer beside the emulation: simple schedulers (POLICY) in a simulation without Slurm
	$(CLI) $@

.PHONY: workload
workload: $(STAMP) ## generate a workload (MODEL, JOBS, SEED) or convert one (TRACE) into OUT
	$(CLI) $@

.PHONY: workload-report
workload-report: $(STAMP) ## a page about a workload (TRACE or MODEL): sizes, run times, submissions, estimates, load
	$(CLI) $@

.PHONY: figure-load
figure-load: $(STAMP) ## average load of conservative backfilling against the accuracy of estimates, simulated
	$(CLI) $@

.PHONY: status
status: $(STAMP) ## one screen: nodes and jobs by state, progress of the replay
	$(CLI) $@

.PHONY: watch
watch: $(STAMP) ## the same live, until q or Ctrl-C
	$(CLI) $@

.PHONY: shell
shell: $(STAMP) ## a shell whose squeue, sinfo, scontrol and sbatch (qstat, pbsnodes, qsub) use the instance; in a sandbox that of USER
	$(CLI) $@

.PHONY: capture
capture: $(STAMP) ## what mirage-capture takes at a site, of the cluster (ACCOUNTING=yes): FROM to TO (the last week) into ARCHIVE
	$(CLI) $@

.PHONY: example-site
example-site: $(STAMP) ## an imaginary site's week (NODES, JOBS, SEED) into ARCHIVE, as mirage-capture takes a real one
	$(CLI) $@

.PHONY: teardown
teardown: $(STAMP) ## stop everything that this instance started, and nothing else; results stay
	$(CLI) $@

.PHONY: provision
provision: $(STAMP) ## servers for a cluster in an OpenStack cloud (INVENTORY=inventories/openstack), with their cost before
	$(CLI) $@

.PHONY: deprovision
deprovision: $(STAMP) ## delete these servers and all that is on them, and nothing else in the cloud
	$(CLI) $@

##@ Tests

# Folders of programs of the extras, each with a Makefile.
EXTRA_PROGRAMS = $(patsubst %/Makefile,%,$(wildcard mirage_extras/*/files/*/Makefile))
# What the tests need that .venv cannot hold, as program:package.
LINT_TOOLS := shellcheck:shellcheck clang-tidy:clang-tidy
UNIT_TOOLS := cc:gcc cc:libc6-dev chromium:chromium
MOLECULE_TOOLS := debootstrap:debootstrap ip:iproute2 nft:nftables ssh:openssh-client systemd-nspawn:systemd-container
# All Debian packages of `make test`. ufw stays off: its rules are tested in network namespaces. OpenMPI is for the malleable applications,
# whose tests are skipped without it.
PACKAGES := ca-certificates git libopenmpi-dev make openmpi-bin procps python3-venv ufw \
	$(foreach tool,$(LINT_TOOLS) $(UNIT_TOOLS) $(MOLECULE_TOOLS),$(lastword $(subst :, ,$(tool))))

# $(call need,program:package ...): one line that names the packages of all programs that are missing.
need = @missing=$$(for i in $(1); do command -v "$${i%%:*}" >/dev/null || printf ' %s' "$${i\#*:}"; done); \
	[ -z "$$missing" ] || { echo "failed: tools are missing: apt-get install$$missing (make packages installs all)"; exit 1; }

.PHONY: test
test: ## all that CI runs: packages, lint, unit, faults-quick, molecule, side by side; prints the seconds of each part and step
	@echo 'make test: up to an hour on 2 cores; less when .venv and the machines of the scenarios have been made before'
	@tests/run_parts.sh

.PHONY: environment
environment: $(STAMP)

.PHONY: packages
packages: ## install the Debian packages that the tests need, as root or with sudo
	@tests/install_packages.sh $(PACKAGES)

.PHONY: unit
# Tests wait for half of their time, so there is one process more than processors. One thread each for OpenBLAS: a test that forks ends its threads, and the next multiplication would wait for them (OpenBLAS in numpy 2).
unit: $(STAMP) ## unit tests, sigsleep's with real signals, the virtual clock's with real programs, on all cores
	$(call need,$(UNIT_TOOLS))
	@OPENBLAS_NUM_THREADS=1 $(BIN)/pytest --numprocesses $$(($$(nproc) + 1)) --dist worksteal --durations=30

.PHONY: fuzz
fuzz: $(STAMP) ## COUNT (10000) mutated files for each reader of files, of the same SEED (any) the same; within 5 s and 500 MiB
	@$(BIN)/python -m tests.fuzz.run "$${COUNT:-10000}" $${SEED:+"$$SEED"}

.PHONY: lint
lint: $(STAMP) ## ansible-lint, yamllint, ruff, mypy, import rule, shellcheck, C
	$(call need,$(LINT_TOOLS))
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	set -e; for folder in $(EXTRA_PROGRAMS); do MYPYPATH=$$folder $(BIN)/mypy --no-namespace-packages $$folder/*.py; done
	$(BIN)/mypy files/capture/mirage-capture
	$(BIN)/lint-imports --no-cache > /dev/null || $(BIN)/lint-imports --no-cache
	$(BIN)/yamllint --strict .
	shellcheck .ci/run tests/*.sh roles/slurm/files/build.sh $(wildcard mirage_extras/*/roles/*/files/*.sh) molecule/source/fetch_source.sh
	find files tests benchmarks mirage_extras -name '*.[ch]' -type f -exec $(BIN)/clang-format --dry-run --Werror {} +
	$(MAKE) -s -C files/sigsleep lint
	$(MAKE) -s -C files/virtual_clock lint
	$(MAKE) -s -C files/job_users lint
	set -e; for folder in $(EXTRA_PROGRAMS); do $(MAKE) -s -C $$folder lint; done
	$(BIN)/ansible-lint --offline

.PHONY: molecule
molecule: $(STAMP) ## the Molecule scenarios, side by side: check, converge, idempotence, verify on this machine
	$(call need,$(MOLECULE_TOOLS))
	@$(BIN)/python -m tests.run_parts molecule

# One fault or some of them: make faults FAULTS="replay-killed key-short". COUNT: how many kills clock-many-kills injects.
.PHONY: faults
faults: $(STAMP) ## inject faults into small real clusters, judge how the commands end, write results/faults.md (as root)
	@$(BIN)/python -m tests.faults

.PHONY: faults-quick
faults-quick: $(STAMP) ## those of them that take seconds, or that matter most (at most 5 minutes)
	@$(BIN)/python -m tests.faults quick

.PHONY: infra
infra: $(STAMP) ## look at the running cluster from outside (testinfra)
	$(BIN)/pytest -m cluster tests/infra $(wildcard mirage_extras/*/tests) --hosts='ansible://all' --ansible-inventory="$${INVENTORY:-inventories/local}"

.PHONY: bench
bench: $(STAMP) ## PART of scale, clock, fidelity, errors, estimates, gate, metrics, coverage, pace (BASE=folder), resize (FULL=yes), rest; without: nodes, submissions, sigsleep
	@$(BIN)/python -m benchmarks $(PART) $(if $(PART),$(if $(filter yes,$(FULL)),1024))

.PHONY: clean
clean: ## remove .venv, caches and what was compiled; results stay
	rm -rf .venv .cache .ansible .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
	$(MAKE) -s -C files/sigsleep clean
	$(MAKE) -s -C files/virtual_clock clean
	$(MAKE) -s -C files/job_users clean
	set -e; for folder in $(EXTRA_PROGRAMS); do $(MAKE) -s -C $$folder clean; done

.PHONY: help
help: ## this text
	@echo 'Slurm Mirage: real Slurm daemons, many more of them than machines, and real workload logs replayed on them.'
	@awk -F':.*## ' '/^##@ /{printf "\n%s\n", substr($$0, 5)} /^[a-z-]+:.*## /{printf "  make %-21s %s\n", $$1, $$2}' Makefile
	@printf '\nKnobs, as in: make experiment NODES=100 SHRINK=50\n'
	@# The first three columns of the tables, without their marks: knob, default, meaning.
	@awk -F' [|] ' '/^[|] `/{gsub("`", "", $$1); gsub("`", "", $$2); printf "  %-13s %-52s %s\n", substr($$1, 3), $$2, $$3} \
		/^## /{printf "\n%s\n", substr($$0, 4)}' docs/knobs.md
