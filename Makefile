# make demo   unfold a Swiss roll by every method
# make quick  lint and a test of every package and every method, in about a minute and a half
# make test   lint, types and tests
# They build their own environment in .venv; all they need is make and Python 3.11 or later.

PYTHON ?= python3
JOBS ?= 2
BENCH ?= spectral
ARGS ?=
DATA ?= $(or $(MANIFOLDRY_DATA),../shared/data)
BIN := .venv/bin
unexport PYTHONDONTWRITEBYTECODE  # processes that the tests start load compiled modules
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

# Every method once on small data, and a file or two per package.
QUICK := \
  tests/test_api.py tests/test_house.py tests/test_imports.py \
  tests/contract/test_contract.py::test_gives_what_its_card_says \
  tests/contract/test_contract.py::test_batch_equals_one_by_one \
  tests/contract/test_contract.py::test_permuted_rows_permute_the_result \
  tests/contract/test_clusterings.py::test_gives_what_its_card_says \
  tests/_core/test_check.py tests/_core/test_parameters.py tests/_core/test_values.py \
  tests/graph/test_graph.py tests/graph/test_search.py \
  tests/_numerics/test_eigen.py tests/_numerics/test_scaling.py tests/_numerics/test_semidefinite_pairs.py \
  tests/data/tables/test_delimited.py tests/data/chunked/test_rows.py \
  tests/data/models/test_round_trip.py::test_every_method_comes_back_with_its_attributes_and_maps \
  tests/methods/test_isomap.py tests/methods/test_local.py tests/methods/test_umap.py tests/methods/clusters/test_ldlc.py \
  tests/evaluation/metrics/test_score.py tests/evaluation/diagnosis/test_finding.py \
  tests/viz/plot/test_plot.py tests/viz/report/test_build.py \
  tests/cli/test_cli.py tests/cli/test_embed.py

# Benchmarks whose tables the documentation shows; the GPU's has a machine of its own.
PUBLISHED := large_fits scaling small_fits growth pair_embeddings sequences

.DEFAULT_GOAL := help
.PHONY: help demo quick test test-gpu lint types check lowest release bench tables experiments heavy jupyter pages docs figures format clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-8s %s\n", $$1, $$2 }' Makefile

demo: .venv/cli  ## unfold a Swiss roll by every method; pictures and a report in demo/
	$(BIN)/manifoldry demo

quick: lint  ## lint and a test of every package and every method, in about 90 seconds
	OPENBLAS_NUM_THREADS=1 $(BIN)/pytest -q -n $(JOBS) --dist worksteal $(QUICK)

test: lint  ## lint, types and tests: all that must pass
	$(MAKE) --no-print-directory --jobs=2 types check

lint: .venv/dev  ## style of the source
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/dev  ## types of the package
	$(BIN)/mypy

check: .venv/dev  ## tests, without the heavy ones
	@.ci/chromium
	OPENBLAS_NUM_THREADS=1 $(BIN)/pytest -n $(JOBS) --dist worksteal
	NUMBA_ENABLE_CUDASIM=1 OPENBLAS_NUM_THREADS=1 $(BIN)/pytest -q -n $(JOBS) --dist worksteal tests/gpu

test-gpu: .venv/gpu  ## tests of the loops of the GPU, on a GPU
	MANIFOLDRY_TEST_GPU=1 $(BIN)/pytest tests/gpu

lowest: .venv-lowest/ready  ## a default fit of every estimator with the lowest declared versions
	OPENBLAS_NUM_THREADS=1 .venv-lowest/bin/python -m pytest tests/contract/test_defaults.py tests/_core/test_csgraph.py

release: .venv/dev  ## build wheel and sdist in dist/, and test them in new environments; ARGS: --full, --only build
	$(BIN)/python .ci/release.py $(ARGS)

heavy: .venv/jupyter  ## tests marked heavy: large experiments
	$(BIN)/pytest -m heavy

jupyter: .venv/jupyter  ## the notebook widget in JupyterLab and a browser
	@.ci/chromium
	$(BIN)/pytest -m heavy tests/viz/widget/test_jupyterlab.py

bench: .venv/peers  ## speed against other libraries; BENCH: spectral, neighbor_embeddings, search, first_fit, unfolding; real data: real; threads: scaling; the last commit: gate; ARGS: --quick
	MANIFOLDRY_DATA=$(DATA) $(BIN)/python benchmarks/$(BENCH).py $(ARGS)

tables: .venv/peers .venv/dev  ## every published table again, on an idle machine: about half an hour
	for bench in $(PUBLISHED); do MANIFOLDRY_DATA=$(DATA) $(BIN)/python benchmarks/$$bench.py || exit 1; done
	$(BIN)/python docs/benchmark_plots.py
	$(BIN)/python docs/build.py

experiments: .venv/cli  ## what papers show, re-run and judged; DATA names the folder of real sets
	MANIFOLDRY_DATA=$(DATA) OPENBLAS_NUM_THREADS=1 $(BIN)/python experiments/run.py --jobs $(JOBS) $(ARGS)

pages: .venv/dev  ## pages of the methods, from their cards and docstrings; tables of the benchmarks
	$(BIN)/python docs/build.py

docs: .venv/docs  ## the site in build/site, without a network: warnings and broken links are errors
	$(BIN)/python docs/build.py
	OPENBLAS_NUM_THREADS=1 $(BIN)/sphinx-build -W --keep-going -q -d build/doctrees docs build/site
	$(BIN)/python docs/links.py build/site

figures: .venv/dev  ## figures of the methods' pages and of the tutorials, plots of the benchmarks
	$(BIN)/python docs/figures.py
	$(BIN)/python docs/run_pages.py
	$(BIN)/python docs/benchmark_plots.py

format: .venv/dev  ## put the source into the house style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:  ## remove the environment, the caches and what the demo drew
	rm -rf .venv .venv-lowest demo build dist docs/gallery docs/reference/generated .mypy_cache .pytest_cache .ruff_cache src/*.egg-info
	find src tests benchmarks experiments docs -type d -name __pycache__ -prune -exec rm -rf {} +

# An environment grows by extras: a stamp per extra, made anew when pyproject.toml changes.
.venv/cli: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or later is needed; name one by: make PYTHON=python3.12 ..." if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv .venv
	$(PIP) install --editable ".[cli]"
	@touch $@

.venv/dev: .venv/cli
	$(PIP) install --editable ".[dev]"
	$(PIP) install --no-deps "bertopic>=0.17"  # without sentence-transformers and its torch: the tests bring embeddings
	@touch $@

.venv/docs: .venv/cli
	$(PIP) install --editable ".[docs]"
	@touch $@

.venv/jupyter: .venv/dev
	$(PIP) install "jupyterlab>=4.2"
	@touch $@

.venv/gpu: .venv/dev
	$(PIP) install --editable ".[gpu]"
	@touch $@

.venv/peers: .venv/cli
	$(PIP) install --editable ".[peers]"
	@touch $@

.venv-lowest/ready: pyproject.toml
	$(PYTHON) -m venv .venv-lowest
	.venv-lowest/bin/python -m pip --disable-pip-version-check --quiet install uv
	.venv-lowest/bin/uv pip install --quiet --python .venv-lowest/bin/python --resolution lowest-direct --editable ".[all]" "pytest>=8.3"
	@touch $@
