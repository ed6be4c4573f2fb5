#!/bin/bash
# Installs each artifact of dist/ in clean Debian and Ubuntu systems, without compiler, FFmpeg or Vulkan, and uses it there.
#
# dist-test.sh [--roots DIR] [--arch ARCH] [VIDEO]...: root, debootstrap, tmux, rpm and npm are needed. DIR keeps the systems
# (default target/dist-build/roots). ARCH is x86_64 or aarch64; without it, each that dist/ has an archive for. With qemu-user-static an
# older processor is tested, too, and, if its handlers are registered (binfmt_misc), the packages for another one.
#
# SUITES names the systems. SPEECH is the directory of a Whisper model: what is said in each VIDEO is printed.
set -euo pipefail
cd "$(dirname "$0")/.."
roots=$PWD/target/dist-build/roots
arches=
while [ $# -gt 0 ]; do
    case $1 in
        --roots) roots=$2 ;;
        --arch) arches=$2 ;;
        *) break ;;
    esac
    shift 2
done
videos=("$@")
dist=$PWD/dist
version=$(sed -n '/^\[workspace.package\]/,/^$/s/^version = "\(.*\)"/\1/p' Cargo.toml)
passed=0
mkdir -p "$roots"

say() { printf '\n== %s\n' "$*"; }
fail() { printf 'FAILED: %s\n' "$*" >&2; exit 1; }
# in_root ROOT COMMAND...: nothing of this machine but the processor and the kernel.
in_root() { local root=$1; shift; env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 TERM=xterm-256color chroot "$root" "$@"; }

# root_of SUITE NAME ARCHITECTURE
root_of() {
    local root=$roots/$2 components=main source=(http://deb.debian.org/debian)
    # Debian's debootstrap does not know the newest Ubuntu; all of them are made alike.
    case $1 in
        jammy | noble | resolute) components=main,universe source=(http://archive.ubuntu.com/ubuntu /usr/share/debootstrap/scripts/gutsy) ;;
    esac
    if [ ! -e "$root/ready" ]; then
        rm -rf "$root"
        debootstrap --arch="$3" --variant=minbase --components=$components --include=python3,python3-venv,nodejs "$1" "$root" "${source[@]}" \
            >"$roots/$2.log" 2>&1 || fail "debootstrap $1, see $roots/$2.log"
        in_root "$root" apt-get clean
        touch "$root/ready"
    fi
    for mount in proc dev; do mountpoint -q "$root/$mount" || mount --bind /$mount "$root/$mount"; done
    mountpoint -q "$root/dev/pts" || mount --bind /dev/pts "$root/dev/pts"
}
# shellcheck disable=SC2329
leave() {
    tmux -L "dist-test-$$" kill-server 2>/dev/null || true
    for root in "$roots"/*/; do for mount in dev/pts dev proc; do umount "$root$mount" 2>/dev/null || true; done; done
}
trap leave EXIT

# use ROOT PROGRAM...: the program must caption, check itself and open the studio.
use() {
    local root=$1 text; shift
    in_root "$root" "$@" --version
    text=$(in_root "$root" "$@" caption demo --quiet)
    echo "caption demo: $text"
    [ "${#text}" -gt 40 ] || fail "no caption of demo"
    for video in "${videos[@]}"; do
        local name=${video##*/} said
        cp "$video" "$root/tmp/$name"
        text=$(in_root "$root" "$@" caption "/tmp/$name" --quiet)
        echo "$name: ${text##*$'\n'}"
        [ -n "$text" ] || fail "no caption of $name"
        [ -n "${SPEECH:-}" ] || continue
        rm -rf "$root/tmp/speech" && cp -rL "$SPEECH" "$root/tmp/speech"
        said=$(in_root "$root" "$@" caption "/tmp/$name" --transcribe /tmp/speech --max-new-tokens 1 --json | python3 -c '
import json, sys
prompts = [event["prompt"] for event in map(json.loads, sys.stdin) if "prompt" in event]
print(*(line for prompt in prompts for line in prompt.splitlines() if line.startswith("[")))')
        echo "$name: said: $said"
        [ -n "$said" ] || fail "nothing was heard in $name"
    done
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
    # qemu 7.2 refuses the call that reads a terminal's mode (TCGETS2) with an error that no kernel gives; qemu 10 does not.
    if ! in_root "$root" python3 -c '
import errno, fcntl, pty, sys
try:
    fcntl.ioctl(pty.openpty()[1], 0x802C542A, bytes(44))
except OSError as error:
    sys.exit(error.errno == errno.ENOSYS)'; then
        echo "skipped: the studio: this version of qemu has no TCGETS2"
        return
    fi
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
for arch in ${arches:-x86_64 aarch64}; do
    target=$arch-unknown-linux-gnu
    archive=$dist/specreel-$version-$target.tar.gz
    if [ ! -e "$archive" ]; then
        [ -z "$arches" ] || fail "dist/ has no archive for $arch"
        continue
    fi
    case $arch in
        x86_64) debian=amd64 cpu=x64 suites="bullseye trixie jammy noble" ;;
        aarch64) debian=arm64 cpu=arm64 suites="bullseye trixie" ;;    # Ubuntu has another mirror for it
        *) fail "expected x86_64 or aarch64, got $arch" ;;
    esac
    if [ "$arch" != "$(uname -m)" ] && [ ! -e "/proc/sys/fs/binfmt_misc/qemu-$arch" ]; then
        [ -z "$arches" ] || fail "no handler for programs of $arch: install qemu-user-static, mount binfmt_misc"
        echo "skipped: $arch, without a handler for its programs"
        continue
    fi
    for suite in ${SUITES:-$suites}; do
        name=$suite-$debian
        root_of "$suite" "$name" "$debian"
        root=$roots/$name
        for tool in cc gcc ffmpeg vulkaninfo; do ! in_root "$root" sh -c "command -v $tool" || fail "$tool is in $name"; done

        say "$name: archive"
        rm -rf "$root/opt/specreel"* && tar -C "$root/opt" -xzf "$archive"
        use "$root" "/opt/specreel-$version-$target/specreel"

        say "$name: Debian package"
        cp "$dist/specreel_$version-1_$debian.deb" "$root/tmp/specreel.deb"
        in_root "$root" dpkg -i /tmp/specreel.deb
        use "$root" specreel
        in_root "$root" dpkg --purge specreel

        say "$name: RPM package"
        # Debian has no database of RPM packages, so glibc is missing in it.
        rpm=(rpm --root "$root" --dbpath /var/lib/rpm-test)
        "${rpm[@]}" -i --nodeps "$dist/specreel-$version-1.$arch.rpm"
        use "$root" specreel
        "${rpm[@]}" -V --nodeps specreel
        "${rpm[@]}" -e specreel
        rm -r "$root/var/lib/rpm-test"

        say "$name: wheel"
        rm -f "$root"/tmp/*.whl && cp "$dist/specreel-$version"-*manylinux*"_$arch.whl" "$root/tmp/"
        in_root "$root" sh -c "rm -rf /opt/venv && python3 -m venv /opt/venv && /opt/venv/bin/pip install -q --no-index /tmp/specreel-*.whl"
        use "$root" /opt/venv/bin/specreel

        say "$name: npm"
        rm -rf "$root/opt/npm" && mkdir "$root/opt/npm"
        # npm installs here; Debian's own npm has hundreds of dependencies. The program runs there, with Debian's node. npm chooses
        # among the programs of dist/ by os and cpu, as among those of its registry; one that is named must fit npm's own processor.
        python3 -c '
import glob, json, sys
dist, end = sys.argv[1], f"-{sys.argv[2]}.npm.tgz"
programs = {"@specreel/" + path.split("/specreel-")[-1].removesuffix(end): f"file:{path}" for path in glob.glob(f"{dist}/specreel-*-*{end}")}
print(json.dumps({"dependencies": {"specreel": f"file:{dist}/specreel{end}"}, "optionalDependencies": programs}))' \
            "$dist" "$version" >"$root/opt/npm/package.json"
        npm install --loglevel=error --offline --no-audit --no-fund --os=linux --cpu=$cpu --prefix "$root/opt/npm"
        # Older versions of Debian and Ubuntu have a node that is too old for the launcher.
        if in_root "$root" node -e 'process.exit(parseInt(process.versions.node) < 18 ? 1 : 0)'; then use "$root" node /opt/npm/node_modules/specreel/specreel.js
        else echo "skipped: $(in_root "$root" node --version) is too old"; fi
    done

    if [ "$arch" = x86_64 ] && command -v qemu-x86_64-static >/dev/null; then
        say "a processor without AVX2, under qemu"
        # qemu 7.2 cannot run glibc 2.31 of Debian 11: Debian 13's is used, where it is there.
        libraries=$roots/trixie-amd64
        [ -e "$libraries/ready" ] || libraries=$root
        old=(qemu-x86_64-static -cpu Nehalem -L "$libraries" "$root/opt/specreel-$version-$target/specreel")
        env -i HOME="$roots" LANG=C.UTF-8 "${old[@]}" doctor | grep -E 'kernels +portable' || fail "doctor does not name the portable kernels"
        env -i HOME="$roots" LANG=C.UTF-8 "${old[@]}" caption demo --quiet
        passed=$((passed + 1))
    fi
done
printf '\n%s passed, 0 failed\n' "$passed"
