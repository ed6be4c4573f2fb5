#!/bin/sh
# Renders docs into target/book with mdBook, with the Markdown of every page beside it, and llms.txt, which lists the pages for
# language models.
set -eu
cd "$(dirname "$0")/.."
book=$PWD/target/book
command -v mdbook >/dev/null || { echo "site: mdbook is missing; run: cargo install mdbook" >&2; exit 1; }
mdbook build
(cd docs && find . -name '*.md' ! -name SUMMARY.md -exec sh -c 'mkdir -p "$2/${1%/*}" && cp "$1" "$2/$1"' - {} "$book" \;)

# The first sentence of a page, after its title; words without links.
about() {
    sed -n '2,$p' "$1" | awk 'NF && !/^(#|```|[|])/ { text = text " " $0; seen = 1; next } seen { exit } END { print substr(text, 2) }' |
        sed -E 's/\[([^]]*)\]\([^)]*\)/\1/g; s/([.:]) .*/\1/; s/:$/./'
}
{
    printf '# specreel\n\n> %s\n' "$(sed -n 's/^description = "\(.*\)"/\1/p' book.toml)."
    sed -n 's/^ *- \[\(.*\)\](\(.*\))$/- \1\t\2/p; s/^# \(.*\)/# \1/p' docs/SUMMARY.md | tail -n +2 |
        while IFS="$(printf '\t')" read -r title page; do
            case $title in
                '# '*) printf '\n## %s\n\n' "${title#'# '}" ;;
                *) printf -- '- [%s](%s): %s\n' "${title#'- '}" "$page" "$(about "docs/$page")" ;;
            esac
        done
} >"$book/llms.txt"
echo "site: target/book/index.html, target/book/llms.txt" >&2
