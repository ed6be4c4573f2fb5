#!/bin/sh
# Compare what weight types cost in predictions with llama.cpp, on the same weights and the same text: its quantizer makes GGUF
# files of a checkpoint in the layout of SmolVLM2, and both compare them with f32. Builds llama.cpp as llama.sh does.
#
#     lab/benches/peers/quality.sh DIR CHECKPOINT
#
# DIR holds the build, the files and the results: llama.txt, and specreel.jsonl of `specreel-lab bench --suite quality`.
# SPECREEL=PATH: the program to measure; default: target/release/specreel. TYPES="Q8_0 …": other types than those below.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
dir=${1:?"usage: quality.sh DIR CHECKPOINT"} checkpoint=${2:?"usage: quality.sh DIR CHECKPOINT"}
types=${TYPES:-"Q8_0 Q6_K Q5_K_M Q5_K_S Q5_1 Q5_0 Q4_K_M Q4_K_S IQ4_NL IQ4_XS Q4_1 Q4_0 Q3_K_M"}
text=$here/../../assets/text/workshop.txt
mkdir -p "$dir" && dir=$(cd "$dir" && pwd)
if [ ! -x "$dir/venv/bin/python" ]; then
    python3 -m venv "$dir/venv"
    "$dir/venv/bin/pip" -q install scikit-build-core cmake ninja numpy gguf safetensors
fi
PATH=$dir/venv/bin:$PATH
if [ ! -d "$dir/source" ]; then
    (cd "$dir" && pip -q download --no-deps --no-binary :all: --no-build-isolation llama-cpp-python)
    mkdir "$dir/source" && tar xzf "$dir"/llama_cpp_python-*.tar.gz -C "$dir/source" --strip-components=1
    # A link to a repository that the package does not have.
    rm -f "$dir/source/vendor/llama.cpp/.git"
fi
build=$dir/build
if [ ! -x "$build/bin/llama-perplexity" ]; then
    cmake -S "$dir/source/vendor/llama.cpp" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DGGML_NATIVE=ON -DLLAMA_CURL=OFF -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_SERVER=OFF
    cmake --build "$build" --target llama-perplexity llama-quantize
fi
models=$dir/quality
[ -f "$models/model-f32.gguf" ] || python "$here/../../tests/parity/make_gguf.py" "$checkpoint" "$models" f32 f32
files=
for type in $types; do
    file=$models/model-$type.gguf
    [ -f "$file" ] || "$build/bin/llama-quantize" "$models/model-f32.gguf" "$file" "$type" 2 >/dev/null 2>&1
    files="$files $file"
done
# Windows of 512 tokens, of which the second half is predicted, as specreel does; keys and values in f32. Without repacking,
# so that every type is multiplied as its file has it.
perplexity() {
    "$build/bin/llama-perplexity" -f "$text" -c 512 -b 512 --chunks 8 -t 2 -ctk f32 -ctv f32 -fa off --no-repack --kl-divergence-base "$dir/f32.kld" "$@" 2>&1
}
: >"$dir/llama.txt"
perplexity -m "$models/model-f32.gguf" | sed -n 's/^Final estimate/F32: &/p' >>"$dir/llama.txt"
for file in $files; do
    printf '%s\n' "$(basename "$file")" >>"$dir/llama.txt"
    perplexity -m "$file" --kl-divergence | grep -E '^(Mean PPL\(Q\)|Mean +KLD|99.0% +KLD|Maximum KLD|Same top p)' >>"$dir/llama.txt"
done
set --
for file in $files; do set -- "$@" --gguf "$file"; done
"${SPECREEL:-$here/../../target/release/specreel}" bench --suite quality --target "$checkpoint" --out "$dir/specreel.jsonl" --force "$@"
cat "$dir/llama.txt"
