#!/usr/bin/env bash
# Builds the fuzz targets with libFuzzer's coverage and runs each for so many seconds over the kept corpus. What it learns and
# what it finds goes to target/fuzz. It is what cargo-fuzz does; that cannot be told to ignore s3s's declared compiler.
set -euo pipefail
cd "$(dirname "$0")"
seconds=${1:-60}
found=../../target/fuzz
host=$(rustc -vV | sed -n 's/^host: //p')
coverage=(-Cpasses=sancov-module)
for option in level=4 inline-8bit-counters pc-table trace-compares; do
    coverage+=("-Cllvm-args=-sanitizer-coverage-$option")
done
RUSTFLAGS="--cfg fuzzing -Ccodegen-units=1 ${coverage[*]}" CARGO_TARGET_DIR=$found/build \
    cargo build --release --locked --ignore-rust-version --target "$host"
for target in wire unsigned texts; do
    mkdir -p "$found/$target"
    case $target in
        texts) kept=(corpus/config corpus/database_url corpus/sweep_report) ;;
        *) kept=(corpus/wire) ;;
    esac
    echo "$target, $seconds s"
    "$found/build/$host/release/$target" "$found/$target" "${kept[@]}" \
        -max_total_time="$seconds" -max_len=8192 -timeout=20 -print_final_stats=1 -artifact_prefix="$found/$target-"
done
