# The verbs of the project. CI calls the same ones.
SHELL := /bin/bash

# Every build goes through this: it prepares what the build needs (once a machine) and exports where that is. A variable
# such as RUSTUP_TOOLCHAIN=1.91 on the command line reaches cargo.
PREPARED = prepared="$$(scripts/prepare $(1))" && eval "$$prepared" &&

.PHONY: demo test test-quick test-arm64 conformance cluster cluster-test simulate kills cuts compressed check tidy build package package-test publish-check docs bench bench-micro compare golden fuzz campaign

# A private regtest node with a sample chain, its index, and a server to connect a wallet to.
# `make demo ARGS=--once` sends a few requests, prints the replies and exits.
demo:
	@$(call PREPARED,node) echo "birdhouse: compiling Birdhouse for the demo (5 minutes on two cores the first time)" >&2 \
		&& cargo build --profile demo --locked -p birdhouse && exec "$${CARGO_TARGET_DIR:-target}/demo/birdhouse" demo $(ARGS)

# The whole test suite, with a real bitcoind and real clients: what failed, and how long each part took. Answers are
# compared with those of ElectrumX: `make test PEERS=e-x,electrs` also with electrs. A fault of theirs fails nothing.
PEERS = e-x
test:
	@$(call PREPARED,node peers $(findstring electrs,$(PEERS))) TEST_PEERS=$(PEERS) scripts/test full $(ARGS)

# The tests beside the code and some with a node, in less than two minutes after the build.
test-quick:
	@$(call PREPARED,node) scripts/test quick $(ARGS)

# Test suites that other projects publish, unmodified, against Birdhouse: clients of Esplora's REST API and of the
# Electrum protocol. `make conformance ARGS=bdk_esplora` runs one.
conformance:
	@$(call PREPARED,node) scripts/conformance $(ARGS)

# Three nodes of Cassandra, a private node of Bitcoin, an indexer, two front ends and HAProxy, until Ctrl-C. ARGS=--once
# asks questions while a node and a front end are killed, and ends.
cluster:
	@$(call PREPARED,node cluster) scripts/debian-packages curl haproxy && \
		cargo build --locked -p birdhouse --features cluster && \
		scripts/cluster "$${CARGO_TARGET_DIR:-target}/debug/birdhouse" $(ARGS)

# An indexer, spare ones and three front ends on nodes of Cassandra, which are killed, paused, slowed down, get wrong
# clocks and, as root, full disks, and are cut off by the firewall: five minutes after the build, and 2 GB of memory.
# The feature compiles everything above the store once more.
cluster-test:
	@$(call PREPARED,node cluster) { [[ $$(id -u) != 0 ]] || scripts/debian-packages nftables; } && cargo test --locked -p birdhouse --features cluster --test cluster --test kill -- \
		--include-ignored --nocapture --test-threads 1 $(or $(ARGS),front)

# Simulated schedules of the index at the tip, optimised and with debug assertions: `make simulate SEEDS=100000`.
# `make simulate FROM=4711 SEEDS=1` replays one.
simulate:
	@$(call PREPARED,) BIRDHOUSE_SEEDS=$(or $(SEEDS),1000) BIRDHOUSE_FROM=$(or $(FROM),0) \
		cargo test --profile checked --locked -p birdhouse-chain --test simulation -- --ignored --nocapture

# SIGKILL at random moments while the index is built, followed and merged: `make kills ROUNDS=1000`.
kills:
	@$(call PREPARED,) BIRDHOUSE_ROUNDS=$(or $(ROUNDS),1000) \
		cargo test --profile checked --locked -p birdhouse-chain --test index -- --ignored --nocapture killed_a_thousand_times

# Power cuts after any write of build and tip, on a simulated disk: `make cuts ROUNDS=100`, of several cuts each.
cuts:
	@$(call PREPARED,) BIRDHOUSE_ROUNDS=$(or $(ROUNDS),100) \
		cargo test --profile checked --locked -p birdhouse-chain --test index -- --nocapture cut_off_at_any_write

# Clients of the relay that compress, each of which must get the right bytes: `make compressed CLIENTS=1000`.
compressed:
	@$(call PREPARED,) scripts/peers nostr-tools > /dev/null && BIRDHOUSE_CLIENTS=$(or $(CLIENTS),1000) \
		cargo test --profile checked --locked -p birdhouse-relay --test relay -- --nocapture random_events_come_back

build:
	@$(call PREPARED,) cargo build --release --locked -p birdhouse

# Packages in target/packages: .deb, tarball, OCI image, list of components (SBOM), checksums. PACKAGE_BINARY=path packs
# a binary that is there. ARCH=arm64 compiles for ARM64, on any machine.
package:
	@$(call PREPARED,) ARCH=$(ARCH) scripts/package "$${CARGO_TARGET_DIR:-target}/packages"

# Makes the packages twice, then installs, runs, upgrades, removes and purges them in a clean Debian root. As root.
# ARCH=arm64 makes those for ARM64, and runs each under emulation.
package-test:
	@$(call PREPARED,node) out="$${CARGO_TARGET_DIR:-target}/packages" && if [[ "$(ARCH)" == arm64 ]]; then \
		ARCH=arm64 scripts/package "$$out/arm64" && scripts/package-test-arm64 "$$out/arm64"; else scripts/package-test "$$out"; fi

# Compiles for ARM64 and runs the tests beside the code of store, chain and events under emulation (qemu).
test-arm64:
	@$(call PREPARED,) scripts/test-arm64 $(ARGS)

# The crates as a registry would get them: their metadata and files, and each compiled from its package alone.
publish-check:
	@$(call PREPARED,) scripts/publish-check

# The manual as a book with a search, in target/book/html. Compiles mdBook once a machine.
docs:
	@scripts/book "$${CARGO_TARGET_DIR:-target}/book"

# Format, lints, documentation, licences, advisories.
check:
	@$(call PREPARED,) cargo fmt --all --check \
		&& cargo clippy --workspace --all-targets --locked -- -D warnings \
		&& cargo clippy -p birdhouse --no-default-features --locked -- -D warnings \
		&& cargo clippy -p birdhouse-store -p birdhouse --features birdhouse-store/cql,birdhouse/cluster --all-targets --locked -- -D warnings \
		&& RUSTDOCFLAGS="-D warnings -A rustdoc::private_intra_doc_links" cargo doc --workspace --no-deps --locked --document-private-items
	@scripts/deny

# Every finding of the tests in crates/testkit/tests/tidy: `make tidy CRATE=store TIDY=word,width`.
tidy:
	@$(call PREPARED,) CRATE=$(CRATE) TIDY=$(TIDY) cargo test --quiet --locked -p birdhouse-testkit --test tidy report -- --ignored --nocapture

# A small version of most tables of BENCHMARKS.md, in a quarter of an hour, into target/bench. BENCH_PEERS=1 installs
# more peers to compare with. `make bench ARGS="build --chain DIR"` runs one part.
bench:
	@$(call PREPARED,node) cargo build --release --locked -p birdhouse -p birdhouse-bench && target="$${CARGO_TARGET_DIR:-target}" \
		&& exec $(if $(ARGS),"$$target/release/birdhouse-bench" $(ARGS),scripts/bench "$$target/release" "$$target/bench")

# Timings of single functions on the hot paths, compared with the last run on this machine, in two minutes after the
# build. `make bench-micro ARGS=matcher` runs those whose names contain `matcher`.
bench-micro:
	@$(call PREPARED,) cargo bench --locked -p birdhouse-bench --bench micro -- $(ARGS)

# The long comparison with electrs and e-x, script by script.
compare:
	@$(call PREPARED,node peers electrs) cargo test --release --locked -p birdhouse --test compare -- --ignored --nocapture

# Regenerates the golden files: the tables of docs/LIMITS.md and docs/settings.md, contrib/birdhouse.toml, and the
# examples of docs/electrum-examples.md and docs/rest-examples.md, asked of a server on a private node.
golden:
	@$(call PREPARED,node) BIRDHOUSE_GOLDEN=1 cargo test --locked -p birdhouse --bin birdhouse --test wallets -- manual:: reference::

# Breaks the server in every way, in pieces, for HOURS or until the volumes of docs/reliability.md are reached. It goes
# on where the last one ended; report, state and logs of failures are in target/campaign. SHARE=0.1 is a tenth of the
# volumes, PARTS=relay-kills,soak some of the parts.
campaign:
	@$(call PREPARED,node) cargo build --profile checked --locked --workspace --bin birdhouse --bin birdhouse-bench \
			$(addprefix --test ,events relay index simulation kill) \
		&& target="$${CARGO_TARGET_DIR:-target}" && exec "$$target/checked/birdhouse-bench" campaign --work "$$target/campaign" \
			$(if $(HOURS),--hours $(HOURS)) $(if $(SHARE),--share $(SHARE)) $(if $(PARTS),--parts $(PARTS)) \
			$(if $(SEED),--seed $(SEED))

# Coverage-guided fuzzing of one decoder for a minute: `make fuzz TARGET=block`. Needs a nightly compiler and
# cargo-fuzz. It begins with the inputs in fuzz/seeds, and keeps what it finds in fuzz/corpus.
fuzz:
	@$(call PREPARED,) cd fuzz && target=$(or $(TARGET),block) && mkdir -p "corpus/$$target" "seeds/$$target" \
		&& cargo +nightly fuzz run "$$target" "corpus/$$target" "seeds/$$target" -- -max_total_time=60
