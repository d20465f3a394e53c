# Needs only python3 (3.11+), make and git; everything else is installed into .venv from the locked requirements.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
export PYTHONDONTWRITEBYTECODE := # or each run of the tests would compile them anew
LOCK := requirements/dev.txt

.PHONY: help
help: ## what can be made
	@grep -hE '^[a-z%-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 18

$(STAMP): $(LOCK) pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "spanscore needs Python 3.11 or newer; set PYTHON=..." >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install -q --disable-pip-version-check --require-hashes -r requirements/uv.txt
	@VIRTUAL_ENV=$(VENV) $(BIN)/uv pip sync -q --compile-bytecode --require-hashes $(LOCK) requirements/uv.txt
	@VIRTUAL_ENV=$(VENV) $(BIN)/uv pip install -q --no-deps --no-build-isolation -e .
	@$(BIN)/python -m compileall -q -j 0 src # where PYTHONDONTWRITEBYTECODE is set, else at each start
	@touch $@

.PHONY: env
env: $(STAMP) ## the environment, in .venv

.PHONY: demo
demo: env ## replay recorded traces through a server of its own and show their scores
	@$(BIN)/spanscore demo

PYTEST := $(BIN)/pytest --dist worksteal -n 2

.PHONY: test
test: env ## the fast tests, before each commit
	@$(PYTEST) -m 'not slow and not program'

.PHONY: test-all
test-all: env ## all tests that need no other program
	@$(PYTEST)

COVERED := dialects turns stats
COVERING := $(COVERED:%=tests/%) $(COVERED:%=src/spanscore/%) tests/golden tests/turn_scheduling

.PHONY: coverage
coverage: env ## lines and branches of the dialects, the turns and the statistics that their tests reach, which have a floor
	@$(PYTEST) --cov --cov-report term $(COVERING)

test-%: env ## those with a marker: test-browser, test-collector, test-examples, test-packaging, test-postgresql, ...
	@$(PYTEST) -rs -m $*

.PHONY: test-versions
test-versions: env ## tests on Python 3.11 to 3.13, each with the oldest and the newest dependencies (network); TESTS=... runs others
	@$(BIN)/python tests/versions.py $(TESTS)

.PHONY: example
example: env ## run the example NAME, asking QUESTION: see examples/README.md (network, once)
	@$(BIN)/python examples/run.py $(NAME) $(if $(QUESTION),"$(QUESTION)")

.PHONY: collector
collector: ## the OpenTelemetry Collector that the tests run, built once into a cache (Go)
	@tests/live/collector/build/build.sh

.PHONY: chaos
chaos: env ## kill and cut the parts of a cluster (Go, PostgreSQL): FAULTS=60 SEED=1 MINUTES=... REPLICAS=3 ONLY=replicas, or MEASURE=1
	@$(BIN)/python tests/live/cluster/run.py --faults $(or $(FAULTS),$(if $(MEASURE),0,60)) --seed $(or $(SEED),1) \
		--replicas $(or $(REPLICAS),3) $(if $(MINUTES),--minutes $(MINUTES)) $(if $(SESSIONS),--sessions $(SESSIONS)) \
		$(if $(MEASURE),--measure) $(if $(ONLY),--only $(ONLY))

# The demo's traces and their scores in a real tracing UI, until Ctrl-C. CHECK=1 looks at its pages in a headless
# Chromium instead; RECORDINGS=FOLDER takes other recordings than the demo's.
UIS := ui-phoenix ui-mlflow ui-zipkin ui-jaeger

.PHONY: $(UIS)
ui-phoenix: ## scores in a real Phoenix, until Ctrl-C; with CHECK=1 a browser looks at them
ui-mlflow: ## the same with MLflow
ui-zipkin: ## the same with Zipkin (Java and Maven)
ui-jaeger: ## the same with Jaeger, which CHECK=1 asks by its API (Go)
$(UIS): env
	@$(BIN)/python tests/live/ui/run.py $(@:ui-%=%) $(if $(CHECK),--check) $(if $(RECORDINGS),--recordings $(RECORDINGS))

.PHONY: check
check: env lint proto-check test ## format, lint, types, import contract, generated code, tests

.PHONY: lint
lint: env
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy --no-error-summary
	@$(BIN)/lint-imports --no-logo >$(VENV)/imports.log || { cat $(VENV)/imports.log; exit 1; }
	@$(BIN)/python tests/density.py

.PHONY: ci
ci: env lint proto-check site ## what CI runs: the fast tests as on a bare machine, then all others
	@.ci/bare $(MAKE) --no-print-directory test
	@$(PYTEST) -rs -m browser # by itself: Playwright leaves an event loop running in its process
	@$(PYTEST) -n 4 -rs -m '(slow or program) and not browser and not ui' # more than processors: most wait

.PHONY: format
format: env ## format the code, fix what lint can fix
	@$(BIN)/ruff check --fix --quiet . || true
	@$(BIN)/ruff format --quiet .

PROTO := proto/spanscore/v1
GENERATED := src/spanscore/api/v1
OPENAPI := src/spanscore/api/openapi.json
PROTOC := $(VENV)/protoc/bin/python

# Newer generators write code that refuses the protobuf and grpcio of a year before; this one's runs on protobuf 5 to 7.
$(PROTOC): requirements/proto.txt | $(STAMP)
	@$(BIN)/uv venv -q --clear --python '>=3.11,<3.13' $(VENV)/protoc
	@VIRTUAL_ENV=$(VENV)/protoc $(BIN)/uv pip sync -q --require-hashes requirements/proto.txt
	@touch $@

.PHONY: proto
proto: env $(PROTOC) ## generate the API's code and its OpenAPI document (Go, network once) from proto/
	@$(BIN)/python proto/resources.py $(PROTO)
	@sh proto/generate.sh $(BIN) $(PROTOC) $(GENERATED)
	@sh proto/openapi.sh $(BIN) $(PROTOC) $(OPENAPI)

.PHONY: proto-check
proto-check: env $(PROTOC)
	@dir=$$(mktemp -d) && cp $(PROTO)/*.proto $$dir && $(BIN)/python proto/resources.py $$dir && diff -r $$dir $(PROTO) \
		|| { echo "$(PROTO) is stale: run make proto" >&2; exit 1; }
	@dir=$$(mktemp -d) && sh proto/generate.sh $(BIN) $(PROTOC) $$dir && diff -r -x __pycache__ $$dir $(GENERATED) \
		|| { echo "$(GENERATED) is stale: run make proto" >&2; exit 1; }

.PHONY: docs
docs: env ## write the pages that are made from the code
	@$(BIN)/python docs/generate.py

SITE := $(VENV)/docs/bin/python

$(SITE): requirements/docs.txt | $(STAMP)
	@$(BIN)/uv venv -q --clear $(VENV)/docs
	@VIRTUAL_ENV=$(VENV)/docs $(BIN)/uv pip sync -q --require-hashes requirements/docs.txt
	@touch $@

.PHONY: site
site: env $(SITE) ## build the documentation's site into out/site, refusing broken links (network once)
	@NO_MKDOCS_2_WARNING=1 $(SITE) -m mkdocs build --strict >$(VENV)/site.log 2>&1 || { grep -v '^INFO' $(VENV)/site.log >&2; exit 1; }

.PHONY: api
api: docs ## record the public API and all that docs/stability.md promises as it is now, which tests hold
	@$(BIN)/python -c 'import sys; sys.path.insert(0, "docs"); import api_page; print(api_page.signatures(), end="")' \
		>tests/docs/public_api.txt
	@$(BIN)/python docs/promised.py

.PHONY: bench
bench: env ## spans per CPU second of reading alone (also of the commit BEFORE) and of a server, with its peak memory; time to import
	@$(BIN)/python bench/reading.py $(if $(BEFORE),--before $(BEFORE))
	@$(BIN)/python bench/throughput.py
	@$(BIN)/python bench/importing.py

.PHONY: bench-in-process
bench-in-process: env ## what scoring in its own process costs an agent: a span's end, and a turn under load
	@$(BIN)/python bench/in_process.py

.PHONY: checks-study
checks-study: env ## how often each check fires on passed and failed runs in FILES of labelled trajectories
	@$(BIN)/python bench/checks.py $(FILES)

.PHONY: grounding-study
grounding-study: env ## how many changed arguments check.arguments_grounded finds in FILES of labelled trajectories
	@$(BIN)/python bench/grounding.py $(FILES)

.PHONY: agreement
agreement: env ## how far judged metrics agree with a benchmark's labels; MODEL=NAME asks it, else recorded answers
	@$(BIN)/python bench/agreement.py $(if $(MODEL),--model $(MODEL)) $(FILES)

.PHONY: bench-collector
bench-collector: env ## what agents notice: a collector with the branch to spanscore beside one without it (Go)
	@$(BIN)/python bench/collector.py

.PHONY: fuzz
fuzz: env ## feed mutated recordings to the reading step for SECONDS (network; not part of CI)
	@VIRTUAL_ENV=$(VENV) $(BIN)/uv pip install -q --target $(VENV)/fuzz atheris
	@PYTHONPATH=$(VENV)/fuzz $(BIN)/python bench/fuzz.py -max_total_time=$(or $(SECONDS),300) -timeout=20

.PHONY: record
record: env ## record golden cases of NAME, a framework in tests/recording, anew (network); without NAME list them
	@$(BIN)/python tests/recording/record.py $(or $(NAME),--list)

.PHONY: outdated
outdated: env ## which recordings are behind their framework's release (of NAME alone): when to record anew (network)
	@$(BIN)/python tests/recording/outdated.py $(NAME)

.PHONY: lock
lock: env ## resolve the dependencies anew (network)
	@$(BIN)/uv pip compile -q --universal --generate-hashes --no-emit-index-url --no-header --upgrade \
		--all-extras --group dev pyproject.toml -o $(LOCK)
	@echo mkdocs-material | $(BIN)/uv pip compile -q --generate-hashes --no-emit-index-url --no-header \
		--python-version 3.11 --universal --upgrade - -o requirements/docs.txt
	@printf 'grpcio-tools==1.62.3\nsetuptools<81\n' | $(BIN)/uv pip compile -q --generate-hashes --no-emit-index-url \
		--no-header --python-version 3.11 --universal --upgrade - -o requirements/proto.txt
	@echo cyclonedx-bom | $(BIN)/uv pip compile -q --generate-hashes --no-emit-index-url --no-header \
		--python-version 3.11 --universal --upgrade - -o requirements/sbom.txt

ENGINE ?= $(shell command -v podman || command -v docker)
IMAGE ?= spanscore

.PHONY: image
image: ## the server as an image, by podman or docker; BASE=... builds upon another image (network)
	@$(ENGINE) build $(if $(findstring podman,$(ENGINE)),--format docker) $(if $(BASE),--build-arg BASE=$(BASE)) \
		--build-arg REVISION=$$(git rev-parse HEAD) -f deploy/Containerfile -t $(IMAGE) .

.PHONY: sbom
sbom: image ## what is in that image, as CycloneDX, into out/
	@mkdir -p out && $(ENGINE) run --rm --entrypoint cat $(IMAGE) /opt/spanscore/sbom.cdx.json >out/sbom.cdx.json

.PHONY: clean
clean: ## remove what was made
	@rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache out
