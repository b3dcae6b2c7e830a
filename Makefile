# make demo, make test, make test-slow, make test-lowest, make test-mpich (ranks under MPICH), make campaign, make lint, make docs, make docs-of VERSION=v0.1.0 (the site of another version), make dist, make figures (QUICK=1: small ones), make paper,
# make benchmarks:
# each sets up what it needs in a virtual environment first.
PYTHON ?= python3
VENV ?= .venv
RUN = $(VENV)/bin/python
ROUNDS ?= 1000
# Compiled modules are kept, also where the environment says not to: tests start hundreds of Pythons that import the package.
unexport PYTHONDONTWRITEBYTECODE
# One thread for each of the processes that share the cores: threads of several PyTorches wait for each other.
test test-slow test-lowest test-mpich: export OMP_NUM_THREADS = 1
TESTS = -m pytest -rs --numprocesses auto --dist loadgroup $(PICK)
PICK ?=
EXTRA ?= dev
BUILT = setup.py consensus/kernels/_kernels.c

.PHONY: demo test test-slow test-lowest test-mpich campaign lint docs docs-of dist figures paper benchmarks clean

demo: $(VENV)/installed
	$(RUN) -m experiments.demo --rounds $(ROUNDS)

test: $(VENV)/installed
	$(RUN) $(TESTS) -m "not slow"

test-slow: $(VENV)/installed
	$(RUN) $(TESTS) -m slow

test-lowest: $(VENV)-lowest/installed
	$(VENV)-lowest/bin/python $(TESTS) -m "not slow"

test-mpich: $(VENV)/installed $(VENV)-mpich/installed
	CONSENSUS_TEST_MPICH=$(VENV)-mpich $(RUN) -m pytest --numprocesses auto -k mpi $(addprefix tests/consensus/,$(addprefix engines/test_,equality.py traffic.py resume.py) asynchronous/test_async_ranks.py)

campaign: $(VENV)/installed
	$(RUN) -m tests.campaign

lint: $(VENV)/installed
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	$(RUN) -m mypy
	$(RUN) docs/_extensions/public.py

docs: $(VENV)/installed
	OMP_NUM_THREADS=1 $(RUN) -m sphinx -b html -W -n --keep-going -j auto -q docs docs/_build/html
	@echo "The site is docs/_build/html/index.html."

# The site of another version: a tag, branch or commit, built from its own sources in an environment of its own.
docs-of:
	@test "$(VERSION)" || { echo "error: say which version: make docs-of VERSION=v0.1.0" >&2; exit 1; }
	git worktree remove --force docs/_build/source 2> /dev/null || true  # of an attempt that failed
	git worktree add --force --detach docs/_build/source $(VERSION)
	$(MAKE) -C docs/_build/source docs VENV=.venv
	rm -rf docs/_build/$(VERSION)
	mv docs/_build/source/docs/_build/html docs/_build/$(VERSION)
	git worktree remove --force docs/_build/source
	@echo "The site is docs/_build/$(VERSION)/index.html."

dist: $(VENV)/installed
	$(RUN) tests/dist.py

figures: $(VENV)/installed
	$(RUN) -m experiments all --output $(if $(QUICK),results/quick --quick,results)
	$(if $(QUICK),,$(RUN) -m experiments.paper results)

paper: $(VENV)/installed
	@command -v latexmk > /dev/null || { echo "error: latexmk is missing; on Debian or Ubuntu: apt-get install latexmk texlive-latex-extra texlive-fonts-recommended lmodern; on macOS: MacTeX" >&2; exit 1; }
	$(MAKE) figures
	cd paper && latexmk -pdf -halt-on-error -interaction=nonstopmode -silent paper.tex
	@echo "The paper is paper/paper.pdf."

benchmarks: $(VENV)/installed
	$(RUN) -m experiments.benchmarks.core
	$(RUN) -m experiments.benchmarks.kernels
	$(RUN) -m experiments.benchmarks.local
	$(RUN) -m experiments.benchmarks.choice
	$(RUN) -m experiments.benchmarks.engines
	$(RUN) -m experiments.benchmarks.frameworks

$(VENV)/installed: pyproject.toml constraints.txt $(BUILT)
	@$(PYTHON) -c 'import sys; sys.exit("consensus needs Python 3.11 or newer; try make PYTHON=python3.12" if sys.version_info < (3, 11) else 0)'
	@echo "Setting up $(VENV), once: an environment ..."
	@$(PYTHON) -m venv $(VENV)
	@echo "... packages, which take some minutes: $(RUN) -m pip install --constraint constraints.txt --editable '.[$(EXTRA)]'"
	@$(RUN) -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[$(EXTRA)]'
	@touch $@
	@echo "... done. Go on with $(RUN), or source $(VENV)/bin/activate"

$(VENV)-lowest/installed: pyproject.toml tests/lowest.py $(BUILT)
	$(PYTHON) -m venv $(VENV)-lowest
	$(PYTHON) tests/lowest.py > $(VENV)-lowest/constraints.txt
	$(VENV)-lowest/bin/python -m pip install --quiet --disable-pip-version-check --constraint $(VENV)-lowest/constraints.txt --editable '.[test]'
	@touch $@

$(VENV)-mpich/installed:
	$(PYTHON) -m venv $(VENV)-mpich
	$(VENV)-mpich/bin/python -m pip install --quiet --disable-pip-version-check 'mpich>=4.3'
	@touch $@

clean:
	cd paper && rm -f paper.pdf *.aux *.bbl *.blg *.fdb_latexmk *.fls *.log *.out
	rm -rf docs/_build docs/examples docs/reference/examples docs/reference/generated docs/sg_execution_times.rst
	rm -rf $(VENV) $(VENV)-lowest $(VENV)-mpich build dist *.egg-info consensus/kernels/*.so .pytest_cache .ruff_cache .mypy_cache
