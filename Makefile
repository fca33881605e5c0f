# Every target installs .venv from requirements.lock first.
PYTHON  ?= python3.11
SCALE   ?= desk
SEEDS   ?= 1
SEED     =
OUT      =
BIN     := .venv/bin
FLAGS    = $(strip --scale=$(SCALE) --seeds=$(SEEDS) $(if $(SEED),--seed=$(SEED)) $(if $(JOBS),--jobs=$(JOBS)) $(if $(TASK),--task=$(TASK)) $(if $(EXPERIMENT),--experiment=$(EXPERIMENT)) $(if $(AGENT),--agent=$(AGENT)) $(if $(CLUSTER),--cluster=$(CLUSTER)) $(if $(SPREAD),--spread=$(SPREAD)) $(if $(OUT),'--runs_dir=$(OUT)' '--results_dir=$(OUT)/records'))
WHAT    ?= operators impala_atari table1 ingestion replay acer_atari acer_continuous ctrace_tabular ctrace_dqn ctrace_r2d2 refer_memory refer_halfcheetah stac population
SECONDS ?= 43200
PAPERS  := $(patsubst paper_configs/%/__init__.py,%,$(wildcard paper_configs/*/__init__.py))

# Refuses a misspelled variable, which would otherwise train something else for hours.
VARIABLES := PYTHON SCALE SEEDS SEED BIN WHAT SECONDS JOBS TASK EXPERIMENT AGENT CLUSTER SPREAD OUT CUDA SOURCE PEER SOAK SHARE
GIVEN     := $(foreach word,$(MAKEOVERRIDES),$(if $(findstring =,$(word)),$(firstword $(subst =, ,$(subst :, ,$(word))))))
UNKNOWN   := $(filter-out $(VARIABLES),$(GIVEN))
$(if $(UNKNOWN),$(error there is no variable $(UNKNOWN); choose one of $(VARIABLES)))

.PHONY: help setup smoke dmlab vizdoom experiments campaign campaign-plan test test-slow lint types check regression regression-fast regression-bands report serve benchmark benchmark-peer mutations mutations-fast kill-test soak check-all docs docs-serve clean $(PAPERS:%=reproduce-%)

help:  ## show this list
	@grep -hE '^[a-z-]+:.*##|^\$$.*reproduce-%:.*##' $(MAKEFILE_LIST) | sed -E 's/^\$$.*reproduce-%:/reproduce-<paper>:/; s/:.*## /\t/' | expand -t 20
	@echo "<paper> is one of $(PAPERS); docs/guide.md explains the variables."

setup: .venv/complete $(if $(CUDA),.venv/cuda)  ## install everything into .venv; CUDA=1: with the libraries for a GPU

.venv/complete: requirements.lock setup.cfg pyproject.toml
	@echo "Installing into .venv, some minutes the first time."
	@$(PYTHON) -m venv .venv
	@xargs --max-procs=3 --max-args=44 $(BIN)/python -m pip install --quiet --quiet --disable-pip-version-check --no-compile --no-deps < requirements.lock  # the file lists all dependencies; one process would take twice as long
	@PYTHONWARNINGS=ignore $(BIN)/python -m compileall -qq -j 0 -x '/(tests|substrates)/' .venv/lib || true  # pip would use one core; some files are not Python 3
	@$(BIN)/python -m pip install --quiet --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

.venv/cuda: .venv/complete
	@echo "Installing the libraries for a GPU, some gigabytes."
	@$(BIN)/python -m pip install --quiet --quiet --disable-pip-version-check --no-build-isolation --editable .[cuda]
	@touch $@

$(PAPERS:%=reproduce-%): reproduce-%: setup  ## train, evaluate, record, report; SCALE=smoke|desk|paper EXPERIMENT=atari_deep TASK=pong AGENT=all SEEDS=1 SEED=4,5 JOBS=1 CLUSTER=auto SPREAD=runs OUT=runs/again
	$(BIN)/python -m repro.reproduce --paper=$* $(FLAGS)

reproduce:
	@echo "make reproduce: choose $(PAPERS:%=reproduce-%)." >&2; exit 2

reproduce-%:
	@echo "make $@: there is no paper $*; choose $(PAPERS:%=reproduce-%)." >&2; exit 2

smoke: $(PAPERS:%=smoke-%)  ## reproduce every paper at smoke scale

smoke-%: setup
	$(BIN)/python -m repro.reproduce --paper=$* --scale=smoke

dmlab: setup  ## build DeepMind Lab's module in build/dmlab; SOURCE=<checkout or git directory of google-deepmind/lab>
	@test -n "$(SOURCE)" || { echo "make dmlab: SOURCE=<checkout or git directory of google-deepmind/lab> is missing."; exit 2; }
	$(BIN)/python -m repro.environments.dmlab_build --source=$(SOURCE)

vizdoom: .venv/vizdoom  ## install ViZDoom's 3D scenarios, without pygame-ce, which overwrites files of pygame

.venv/vizdoom: .venv/complete requirements-vizdoom.lock
	@$(BIN)/python -m pip install --quiet --quiet --disable-pip-version-check --no-deps --requirement requirements-vizdoom.lock
	@touch $@

experiments: setup  ## list the experiments of all papers, with agents and default tasks
	$(BIN)/python -m repro.experiments

campaign: setup  ## work through paper_configs/campaign.py on all cores, for weeks; it commits nothing
	$(BIN)/python -m repro.campaign

campaign-plan: setup  ## show the campaign's runs, core-hours, rows that they answer, and progress
	$(BIN)/python -m repro.campaign --dry_run

# Tests, above all slow ones, often wait for other processes: two cores can run three workers, or four with slow tests.
test: setup  ## run unit and numerical tests except the slow ones
	$(BIN)/python -m pytest --numprocesses=3 --dist=worksteal -m "not slow" --durations=10

test-slow: setup  ## run the slow tests: learning, bit-identical reruns, kills, several machines; about as long
	$(BIN)/python -m pytest --numprocesses=4 --dist=worksteal -m slow

lint: setup  ## check style
	$(BIN)/ruff check
	$(BIN)/ruff format --check

types: setup  ## check static types
	$(BIN)/mypy

check: setup  ## check committed results against published numbers
	$(BIN)/python -m repro.check

regression: setup  ## run short trainings with the present code, each judged by bands over a dozen seeds; some minutes
	$(BIN)/python -m repro.regression

regression-fast: setup  ## run only trainings that find faults which no others find; SHARE=1/2 for half of them
	$(BIN)/python -m repro.regression --fast $(if $(SHARE),--share=$(SHARE))

regression-bands: setup  ## compute new bands for trainings whose settings changed; about an hour
	$(BIN)/python -m repro.regression --make_bands

report: setup  ## write report/index.html, docs/results.md, docs/results_not_run.md and pictures in docs/ from results/
	$(BIN)/python -m repro.report --out=report --markdown=docs/results.md \
	  --picture=impala/atari_shallow/breakout=docs/breakout.png \
	  --picture=ctrace/dqn/breakout=docs/ctrace_breakout.png

serve: setup  ## serve the report on http://127.0.0.1:8001
	test -f report/index.html || $(MAKE) report
	$(BIN)/python -m http.server 8001 --bind 127.0.0.1 --directory report

benchmark: setup  ## measure throughput against the machine's own bound; WHAT=table1 for one benchmark
	@mkdir -p runs
	@for what in $(WHAT); do $(BIN)/python -m repro.benchmark --what=$$what --json=runs/benchmark_$$what.json || exit 1; done

benchmark-peer: setup $(if $(and $(SOURCE),$(filter cleanrl torchbeast,$(PEER))),build/peers/complete)  ## compare speed with another program; PEER=cleanrl|torchbeast|smarties SOURCE=<its checkout or git directory>
	@test -n "$(PEER)" || { echo "make benchmark-peer: PEER=cleanrl, torchbeast or smarties is missing."; exit 2; }
	@test -n "$(SOURCE)" || { echo "make benchmark-peer: SOURCE=<checkout or git directory of $(PEER)> is missing."; exit 2; }
	@mkdir -p runs
	$(BIN)/python -m repro.benchmarks.peers --peer=$(PEER) --source=$(SOURCE) --json=runs/benchmark_$(PEER).json

build/peers/complete: requirements-peers.lock
	@echo "Installing PyTorch into build/peers, some minutes the first time."
	$(PYTHON) -m venv build/peers
	build/peers/bin/python -m pip install --quiet --quiet --disable-pip-version-check --requirement requirements-peers.lock
	touch $@

mutations: setup vizdoom  ## check that named tests and reference trainings catch wrong variants of the code
	$(BIN)/python -m tests.mutations
	$(BIN)/python -m tests.mutations --training

mutations-fast: setup vizdoom  ## check only some variants, in some minutes; SHARE=1/3 for every third of them
	$(BIN)/python -m tests.mutations --fast $(if $(SHARE),--share=$(SHARE))
	$(BIN)/python -m tests.mutations --training --fast

kill-test: setup  ## kill a short training 50 times and resume it each time
	$(BIN)/python -m tests.kill_and_resume --kills=50

soak: setup  ## train for SECONDS=43200 in all; memory, files and processes must not grow; SOAK=impala_async,dqn for some trainings
	@case "$(SECONDS)" in *[!0-9]*) echo "make soak: SECONDS=$(SECONDS) is no number of seconds." >&2; exit 2;; esac
	$(BIN)/python -m tests.soak --seconds=$(SECONDS) $(if $(SOAK),--what=$(SOAK))

docs: setup  ## build the documentation site in site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

docs-serve: setup  ## serve the site on http://127.0.0.1:8000, rebuilt when a file changes
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs serve

check-all: lint types test test-slow check regression  ## run lint, types, all tests, check and regression; continuous integration leaves out the slow tests

clean:  ## remove .venv, site, report, and all runs with their checkpoints; results/ and build/ stay
	rm -rf .venv runs report site
