#!/bin/sh
# Compare the products of `--device gpu` with those of llama.cpp's Vulkan backend, on the first GPU, in turn: q8_0 and q4_k, the largest
# matrix of a layer. Builds ggml from the source package of llama-cpp-python (half an hour on two cores, once).
# Needs a Vulkan driver, and to build cmake, ninja, glslc, libvulkan-dev (1.3.283 or newer) and spirv-headers.
#
#     lab/benches/peers/vulkan.sh DIR [SHAPE OUTPUTS INPUTS] [ROUNDS]
#
# SHAPE: as of `specreel-lab bench --suite device`, whose largest matrix has OUTPUTS x INPUTS weights [default: qwen3.5-0.8b 7168 1024].
# ROWS="1 6 26 512": rows of a product. SPECREEL=PATH: the program to measure; default: target/release/specreel. A software driver takes
# minutes for a round of 512 rows.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
dir=${1:?"usage: vulkan.sh DIR [SHAPE OUTPUTS INPUTS] [ROUNDS]"} shape=${2:-qwen3.5-0.8b} outputs=${3:-7168} inputs=${4:-1024} rounds=${5:-3}
rows=${ROWS:-1 6 26 512}
specreel=${SPECREEL:-$here/../../target/release/specreel}
mkdir -p "$dir" && dir=$(cd "$dir" && pwd)
llama=$dir/source/vendor/llama.cpp
if [ ! -d "$llama" ]; then
    python3 -m venv "$dir/venv"
    "$dir/venv/bin/pip" -q install scikit-build-core
    (cd "$dir" && venv/bin/pip -q download --no-deps --no-binary :all: --no-build-isolation llama-cpp-python)
    mkdir "$dir/source" && tar xzf "$dir"/llama_cpp_python-*.tar.gz -C "$dir/source" --strip-components=1
fi
if [ ! -x "$dir/vulkan" ]; then
    cmake -S "$llama" -B "$dir/build-vulkan" -G Ninja -DCMAKE_BUILD_TYPE=Release -DGGML_VULKAN=ON -DLLAMA_CURL=OFF -DLLAMA_BUILD_TESTS=OFF
    cmake --build "$dir/build-vulkan" --target ggml
    libraries=$dir/build-vulkan/bin
    c++ -O2 -std=c++17 -I "$llama/ggml/include" "$here/vulkan.cpp" -L "$libraries" -Wl,-rpath,"$libraries" -lggml -lggml-base -lggml-vulkan -o "$dir/vulkan"
fi
# llama.cpp takes a software driver only if its device is named.
export GGML_VK_VISIBLE_DEVICES="${GGML_VK_VISIBLE_DEVICES:-0}"
round=0
while [ "$round" -lt "$rounds" ]; do
    round=$((round + 1))
    echo "round $round: type, rows, ms"
    # shellcheck disable=SC2086
    "$dir/vulkan" "$outputs" "$inputs" $rows 2>/dev/null | sed 's/^/llama.cpp /'
    "$specreel" bench --suite device --device gpu --shape "$shape" --rows "$(echo "$rows" | tr ' ' ,)" --slots 32 --json |
        python3 -c '
import json, sys
for line in map(json.loads, sys.stdin):
    kind = line.get("kernel", "").split()[:1]
    if kind in (["q8_0"], ["q4_k"]):
        print("specreel", kind[0], line["rows"], "%.4f" % (line["us"] / 1e3))'
done
