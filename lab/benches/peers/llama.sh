#!/bin/sh
# Compare with llama.cpp on random weights in the shape of Qwen2.5-VL: passes of 1, 6, 11 and 26 rows, prompts, the vision tower,
# loading. Builds llama.cpp from the source package of llama-cpp-python (10 minutes, once) and measures both in turn.
#
#     lab/benches/peers/llama.sh DIR [3b|7b] [q4_k_m|q8_0] [ROUNDS]
#
# DIR holds the build and the models (3b: 3 to 5 GB). SPECREEL=PATH: the program to measure; default: target/release/specreel.
# AVX512=off: both without AVX-512, in AVX2.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
dir=${1:?"usage: llama.sh DIR [3b|7b] [q4_k_m|q8_0] [ROUNDS]"} shape=${2:-3b} mix=${3:-q4_k_m} rounds=${4:-3}
mkdir -p "$dir" && dir=$(cd "$dir" && pwd)
if [ ! -x "$dir/venv/bin/python" ]; then
    python3 -m venv "$dir/venv"
    "$dir/venv/bin/pip" -q install scikit-build-core cmake ninja numpy gguf pillow
fi
PATH=$dir/venv/bin:$PATH
if [ ! -d "$dir/source" ]; then
    # With build isolation pip would first build cmake itself.
    (cd "$dir" && pip -q download --no-deps --no-binary :all: --no-build-isolation llama-cpp-python)
    mkdir "$dir/source" && tar xzf "$dir"/llama_cpp_python-*.tar.gz -C "$dir/source" --strip-components=1
fi
llama=$dir/source/vendor/llama.cpp
if [ "${AVX512:-on}" = off ]; then
    build=$dir/build-avx2 flags="-DGGML_NATIVE=OFF -DGGML_AVX2=ON -DGGML_FMA=ON -DGGML_F16C=ON -DGGML_BMI2=ON"
    export SPECREEL_NO_AVX512=1 SPECREEL_NO_VNNI=1
else
    build=$dir/build flags=-DGGML_NATIVE=ON
fi
if [ ! -x "$build/bin/llama-bench" ]; then
    # shellcheck disable=SC2086
    cmake -S "$llama" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release $flags -DLLAMA_CURL=OFF -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_SERVER=OFF
    cmake --build "$build" --target llama-bench llama-mtmd-cli
fi
model=$dir/$shape-$mix/$shape-$mix.gguf
[ -f "$model" ] || python "$here/random_gguf.py" "$dir/$shape-$mix" "$shape" "$mix" "$llama/models/ggml-vocab-qwen2.gguf"
python "$here/llama.py" "$build/bin" "${SPECREEL:-$here/../../target/release/specreel}" "$model" "$rounds"
