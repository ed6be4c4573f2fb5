#!/bin/bash
# Installs each artifact of dist/ in clean Debian systems, without compiler, FFmpeg or Vulkan, and uses it there.
#
# dist-test.sh [--roots DIR] [VIDEO]: root, debootstrap, tmux and npm are needed. DIR keeps the systems (default
# target/dist-build/roots). With qemu-user-static an older processor is tested, too, and aarch64, if there is an archive for it.
set -euo pipefail
cd "$(dirname "$0")/.."
roots=$PWD/target/dist-build/roots
[ "${1:-}" != --roots ] || { roots=$2; shift 2; }
video=${1:-}
dist=$PWD/dist
mirror=http://deb.debian.org/debian
version=$(sed -n '/^\[workspace.package\]/,/^$/s/^version = "\(.*\)"/\1/p' Cargo.toml)
passed=0
mkdir -p "$roots"

say() { printf '\n== %s\n' "$*"; }
fail() { printf 'FAILED: %s\n' "$*" >&2; exit 1; }
# in_root ROOT COMMAND...: nothing of this machine but the processor and the kernel.
in_root() { local root=$1; shift; env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 TERM=xterm-256color chroot "$root" "$@"; }

root_of() {
    local root=$roots/$1
    if [ ! -e "$root/ready" ]; then
        rm -rf "$root"
        debootstrap --variant=minbase --include=python3,python3-venv,nodejs "$1" "$root" $mirror >"$roots/$1.log" 2>&1 || fail "debootstrap $1, see $roots/$1.log"
        in_root "$root" apt-get clean
        touch "$root/ready"
    fi
    for mount in proc dev; do mountpoint -q "$root/$mount" || mount --bind /$mount "$root/$mount"; done
    mountpoint -q "$root/dev/pts" || mount --bind /dev/pts "$root/dev/pts"
}
# shellcheck disable=SC2329
leave() { for root in "$roots"/*/; do for mount in dev/pts dev proc; do umount "$root$mount" 2>/dev/null || true; done; done; }
trap leave EXIT

# use ROOT PROGRAM...: the program must caption, check itself and open the studio.
use() {
    local root=$1 text; shift
    in_root "$root" "$@" --version
    text=$(in_root "$root" "$@" caption demo --quiet)
    echo "caption demo: $text"
    [ "${#text}" -gt 40 ] || fail "no caption of demo"
    if [ -n "$video" ]; then
        cp "$video" "$root/tmp/clip.mp4"
        in_root "$root" "$@" caption /tmp/clip.mp4 --quiet | tail -n 1
    fi
    in_root "$root" "$@" doctor | grep -E '^ +(ok|warn|FAIL|-) ' | head -n 24 || true
    in_root "$root" "$@" doctor --json | python3 -c '
import json, sys
bad = [f for f in json.load(sys.stdin)["findings"] if f["state"] == "bad" or f["area"] == "FFmpeg" and f["state"] != "good"]
sys.exit(f"doctor: {bad}" if bad else 0)'
    studio "$root" "$@"
    passed=$((passed + 1))
}

# studio ROOT PROGRAM...: open it in a terminal, wait for its first screen, quit.
studio() {
    local root=$1 screen session=dist-test-$$; shift
    tmux -L "$session" -f /dev/null new-session -d -x 100 -y 30 \
        "env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 TERM=screen-256color chroot $root $* 2>/tmp/$session.err; echo exit code \$?; sleep 600"
    for _ in $(seq 240); do
        screen=$(tmux -L "$session" capture-pane -p -t 0)
        case $screen in *"Select a clip, edit the prompt"*) break ;; *"exit code"*) break ;; esac
        sleep 0.5
    done
    printf '%s\n' "$screen" | head -n 12
    [[ $screen == *"Select a clip, edit the prompt"* ]] || fail "the studio did not open: $(cat /tmp/$session.err)"
    tmux -L "$session" send-keys -t 0 q
    for _ in $(seq 120); do
        screen=$(tmux -L "$session" capture-pane -p -t 0)
        [[ $screen != *"exit code"* ]] || break
        sleep 0.5
    done
    tmux -L "$session" kill-server
    [[ $screen == *"exit code 0"* ]] || fail "the studio did not end with 0"
}

(cd "$dist" && sha256sum --quiet -c SHA256SUMS)
for suite in ${SUITES:-bullseye trixie}; do
    root_of "$suite"
    root=$roots/$suite
    for tool in cc gcc ffmpeg vulkaninfo; do ! in_root "$root" sh -c "command -v $tool" || fail "$tool is in $suite"; done

    say "$suite: archive"
    rm -rf "$root/opt/specreel"* && tar -C "$root/opt" -xzf "$dist/specreel-$version-x86_64-unknown-linux-gnu.tar.gz"
    use "$root" "/opt/specreel-$version-x86_64-unknown-linux-gnu/specreel"

    say "$suite: Debian package"
    cp "$dist/specreel_$version-1_amd64.deb" "$root/tmp/specreel.deb"
    in_root "$root" dpkg -i /tmp/specreel.deb
    use "$root" specreel
    in_root "$root" dpkg --purge specreel

    say "$suite: wheel"
    cp "$dist"/specreel-*manylinux*x86_64.whl "$root/tmp/"
    in_root "$root" sh -c "rm -rf /opt/venv && python3 -m venv /opt/venv && /opt/venv/bin/pip install -q --no-index /tmp/specreel-*.whl"
    use "$root" /opt/venv/bin/specreel

    say "$suite: npm"
    rm -rf "$root/opt/npm" && mkdir "$root/opt/npm"
    # npm installs here; Debian's own npm has hundreds of dependencies. The program runs there, with Debian's node.
    npm install --silent --offline --no-audit --no-fund --prefix "$root/opt/npm" \
        "$dist/specreel-$version.npm.tgz" "$dist/specreel-linux-x64-$version.npm.tgz"
    # Older versions of Debian have a node that is too old for the launcher.
    if in_root "$root" node -e 'process.exit(parseInt(process.versions.node) < 18 ? 1 : 0)'; then use "$root" node /opt/npm/node_modules/specreel/specreel.js
    else echo "skipped: $(in_root "$root" node --version) is too old"; fi
done

if command -v qemu-x86_64-static >/dev/null; then
    say "a processor without AVX2, under qemu"
    # qemu 7.2 cannot run glibc 2.31: the newest system's is used.
    old=(qemu-x86_64-static -cpu Nehalem -L "$root" "$root/opt/specreel-$version-x86_64-unknown-linux-gnu/specreel")
    env -i HOME="$roots" LANG=C.UTF-8 "${old[@]}" doctor | grep -E 'kernels +portable' || fail "doctor does not name the portable kernels"
    env -i HOME="$roots" LANG=C.UTF-8 "${old[@]}" caption demo --quiet
    passed=$((passed + 1))
fi

if [ -e "$dist/specreel-$version-aarch64-unknown-linux-gnu.tar.gz" ] && command -v qemu-aarch64-static >/dev/null; then
    say "aarch64: archive, under qemu"
    root=$roots/aarch64
    # Unpacked only: qemu finds the C library of the other processor in it.
    [ -e "$root/lib/ld-linux-aarch64.so.1" ] || debootstrap --foreign --arch=arm64 --variant=minbase bullseye "$root" $mirror >"$roots/aarch64.log" 2>&1
    tar -C "$roots" -xzf "$dist/specreel-$version-aarch64-unknown-linux-gnu.tar.gz"
    program="$roots/specreel-$version-aarch64-unknown-linux-gnu/specreel"
    for command in --version "caption demo --quiet" doctor; do
        # shellcheck disable=SC2086
        env -i HOME="$roots" PATH=/usr/bin LANG=C.UTF-8 qemu-aarch64-static -L "$root" "$program" $command
    done
    passed=$((passed + 1))
fi
printf '\n%s passed, 0 failed\n' "$passed"
