# shellcheck shell=sh
# Sourced by scripts that build for Windows: the linker, and what libclang reads.
export CARGO_TARGET_X86_64_PC_WINDOWS_GNU_LINKER=x86_64-w64-mingw32-gcc
# libclang reads FFmpeg's headers with those of mingw-w64, and needs its own among them.
for headers in /usr/lib/llvm*/lib/clang/*/include; do [ ! -e "$headers/mm_malloc.h" ] || own=$headers; done
export BINDGEN_EXTRA_CLANG_ARGS_x86_64_pc_windows_gnu="-isystem ${own:?libclang has no headers}"
