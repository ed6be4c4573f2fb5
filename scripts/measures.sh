#!/bin/sh
# Prints how the code measures up to the rules of its shape (CONTRIBUTING.md, "The shape of the code"): what is counted, how many there are, and
# how many there may be. Ends with 1 if one is exceeded.
set -eu
cd "$(dirname "$0")/.."
failed=0

row() {
    mark=ok
    [ "$2" -le "$3" ] || { mark="more than $3" failed=1; }
    printf '%-62s %6s  %s\n' "$1" "$2" "$mark"
}
files() { grep -rl "$@" --include='*.rs' 2>/dev/null | grep -vc test || true; }
lines() { grep -rn "$@" --include='*.rs' 2>/dev/null | grep -vc '^[^:]*test' || true; }
# Functions of a trait.
functions() { awk "/pub trait $1/,/^}/" "$2" | grep -c '^    fn' || true; }
# Lines of code: no blank lines, no comments, no modules of tests.
code() {
    find "$@" -name '*.rs' -not -name '*tests.rs' -not -path '*/tests/*' -not -name testing.rs -not -name fake.rs -exec cat {} + |
        awk '/^#\[cfg\(test\)\]/ { test = 1 } test && /^}/ { test = 0; next } test && /^mod .*;/ { test = 0; next } !test' |
        grep -cv '^ *\(//.*\)\?$'
}

row "files of the studio that name an Overlay" "$(files 'Overlay::' src/tui)" 0
row "files of the studio that import all of their parent" "$(files '^use super::\*' src/tui)" 0
row "copies of a runner around a changed request" "$(lines '\.\.\*self }' crates/engine/src/stages)" 0
row "questions whether a method prunes its target" "$(lines '\.prunes()' crates src)" 0
for file in crates/tensor/src/ops/*.rs; do
    for trait in $(grep -oE '^pub trait \w*Ops' "$file" | awk '{ print $3 }'); do
        row "functions of $trait" "$(functions "$trait" "$file")" 20
    done
done
row "files of the command line that name the studio" "$(files 'tui::' src/cli)" 0
row "files of the studio that name the command line" "$(files 'cli::' src/tui)" 0
row "tests inside functions of the engine" "$(lines '^ \+#\[cfg(test)\]' crates/engine/src)" 0
packages=$(cargo tree --locked --offline -p specreel -e normal --prefix none 2>/dev/null | sed "s, (\*),," | sort -u)
row "packages that the program links" "$(echo "$packages" | wc -l)" 354
row "packages of candle that the program links" "$(echo "$packages" | grep -c '^candle' || true)" 0
row "lines of code of the product" "$(code src crates/*/src)" 105400
exit $failed
