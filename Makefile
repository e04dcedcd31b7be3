# make demo: sets up what is missing, builds, installs into ./install, sails a ship through a harbour, names its pictures.
# make test: everything a change must pass. make header: renews what is generated. make install PREFIX=/opt/rrbsolver.

PREFIX ?= $(CURDIR)/install
JOBS   ?= $(shell nproc 2>/dev/null || echo 2)
TOOL    = cargo run --quiet --release --locked -p rrbsolver-tools --bin

MAKEFLAGS += --no-print-directory

.PHONY: all build install demo test header setup clean

all: build

setup:
	@scripts/setup

build: setup
	cmake -S . -B build -DCMAKE_BUILD_TYPE=Release
	cmake --build build -j $(JOBS)

install: build
	cmake --install build --prefix "$(PREFIX)"

demo: setup
	@scripts/demo

test: setup
	@scripts/test

header: setup
	$(TOOL) rrbsolver-generate

clean:
	rm -rf build install output
