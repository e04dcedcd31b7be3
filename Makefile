# make demo: sets up what is missing, builds into ./build/demo, sails a ship through a harbour, names its pictures.
# make live: the same waves in real time, steered in a browser.
# make bubbles: the same with rising bubbles in space, by dpcg_.
# make docs: builds the documentation site into build/docs/html; `make install` installs it when it exists.
# make dist: packs the sources with all crates as dist/rrbsolver-VERSION.tar.xz; scripts/test-dist builds it offline.
# make setup: installs missing compilers and nvcc; make and make install only print what is missing.
# make test: everything a change must pass. make header: renews what is generated. make install PREFIX=/opt/rrbsolver.
# make paper: the papers' measurements and figures on this machine, into output/paper; PAPER_SIZE=511 for a quick look.
#   DATA=folder: the matrices bcsstm22, e05r0000, add32 and memplus of the thesis; memplus is not in this repository.
# make fuzz: the readers of matrix files on texts that coverage leads to, FUZZ_SECONDS each.
# make performance: measures the marked tables of docs/benchmarks/cpu-2d.md again.

PREFIX ?= $(CURDIR)/install
JOBS   ?= $(shell nproc 2>/dev/null || echo 2)
PAPER_SIZE ?= 2047
DATA   ?= tests/sparse/data
WATERS  = examples/ship_waves/data
FUZZ_SECONDS ?= 600
BENCH   = cargo run --quiet --release --locked -p rrbsolver-benches --bin rrbsolver-bench --
PLOT    = cargo run --quiet --release --locked -p rrbsolver-plot --
TOOL    = cargo run --quiet --release --locked -p rrbsolver-tools --bin

MAKEFLAGS += --no-print-directory

.PHONY: all build install demo live bubbles paper performance test fuzz header docs dist setup check-setup clean

all: build

setup:
	@scripts/setup demo

check-setup:
	@scripts/setup --check

build: check-setup
	cmake -S . -B build -DCMAKE_BUILD_TYPE=Release
	cmake --build build -j $(JOBS)

install: build
	cmake --install build --prefix "$(PREFIX)"

demo:
	@scripts/demo

live:
	@scripts/live

bubbles:
	@scripts/bubbles

paper: check-setup
	$(BENCH) paper --size $(PAPER_SIZE) --data "$(DATA)" --output output/paper \
	    --bathymetry $(WATERS)/swan_river/swan_river_8m.asc.gz --bathymetry $(WATERS)/coos_bay/coos_bay_10m.asc.gz
	$(PLOT) bench output/paper/*.json --output output/paper

performance: check-setup
	$(BENCH) page docs/benchmarks/cpu-2d.md --measure

test:
	@scripts/setup test
	@scripts/test

fuzz:
	@scripts/fuzz $(FUZZ_SECONDS)

header: check-setup
	$(TOOL) rrbsolver-generate

docs:
	@scripts/docs

dist:
	@scripts/dist

clean:
	rm -rf build dist install output fuzz/target
