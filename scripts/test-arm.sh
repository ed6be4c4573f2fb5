#!/bin/bash
# Runs the tensor crate's tests for 64-bit ARM under qemu, on models of processors with i8mm, with dotprod alone, and with
# neither.
#
# Debian: qemu-user-static and libc6-arm64-cross. Rust: `rustup target add aarch64-unknown-linux-gnu`, cargo-zigbuild, and Zig.
# CARGO_BUILD_ARGS can select another package.
set -euo pipefail
cd "$(dirname "$0")/.."
target=aarch64-unknown-linux-gnu

tests=$(cargo zigbuild --locked --tests ${CARGO_BUILD_ARGS:--p specreel-tensor} --target $target --message-format json |
    sed -n 's/.*"executable":"\([^"]*\)".*/\1/p')
cd crates/tensor    # where cargo runs them
for cpu in max neoverse-n1 cortex-a72; do
    for test in $tests; do
        echo "== $cpu: ${test##*/}"
        # Two tests of `store` start themselves, which qemu cannot do for a foreign program.
        qemu-aarch64-static -cpu $cpu -L /usr/aarch64-linux-gnu "$test" --quiet --test-threads 2 \
            --skip other_faults_end_the_program --skip a_file_that_gets_shorter
    done
done
