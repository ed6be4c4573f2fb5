#!/bin/sh
# release-recipes.sh SHA256SUMS: writes the version and the sums of a published release into the recipes of packaging/.
set -eu
sums=$(realpath "$1")
cd "$(dirname "$0")/../packaging"
version=$(sed -n 's/.* specreel-\(.*\)-x86_64-unknown-linux-gnu.tar.gz$/\1/p' "$sums")
[ -n "$version" ] || { echo "error: $1 has no specreel-VERSION-x86_64-unknown-linux-gnu.tar.gz" >&2; exit 1; }
sed -i "s/^  version \".*\"/  version \"$version\"/" homebrew/specreel.rb
sed -i "s/^pkgver=.*/pkgver=$version/" aur/PKGBUILD
for target in x86_64-unknown-linux-gnu aarch64-unknown-linux-gnu x86_64-apple-darwin aarch64-apple-darwin; do
    sum=$(sed -n "s/^\([0-9a-f]\{64\}\)  specreel-$version-$target.tar.gz$/\1/p" "$sums")
    [ -n "$sum" ] || { echo "warning: no archive for $target" >&2; continue; }
    sed -i "/# $target\$/s/[0-9a-f]\{64\}/$sum/" homebrew/specreel.rb aur/PKGBUILD
done
