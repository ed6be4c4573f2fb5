#!/bin/bash
# Runs packaging/install.sh in clean Debian systems, as a user who is not root, with releases that this machine serves.
#
# install-test.sh [--roots DIR] [--program FILE]: root, debootstrap and python3 are needed. DIR keeps the systems (default
# target/dist-build/roots). The newest release is the archive of dist/ for this processor or, with --program, one made of FILE.
#
# SUITE is the release of Debian (default trixie), PACKAGES what FILE needs there, with commas.
set -euo pipefail
cd "$(dirname "$0")/.."
roots=$PWD/target/dist-build/roots program=
while [ $# -gt 0 ]; do
    case $1 in
        --roots) roots=$2 && shift 2 ;;
        --program) program=$2 && shift 2 ;;
        *) echo "install-test: unexpected argument $1" >&2; exit 2 ;;
    esac
done
version=$(sed -n '/^\[workspace.package\]/,/^$/s/^version = "\(.*\)"/\1/p' Cargo.toml)
target=$(uname -m)-unknown-linux-gnu
suite=${SUITE:-trixie}
work=$(mktemp -d)
passed=0

say() { printf '\n== %s\n' "$*"; }
fail() { printf 'FAILED: %s\n' "$*" >&2; exit 1; }
ok() { echo "ok: $*" && passed=$((passed + 1)); }
# shellcheck disable=SC2329
leave() {
    [ -z "${server:-}" ] || kill "$server" 2>/dev/null || true
    for root in "$roots"/install-*/; do for mount in dev proc; do umount "$root$mount" 2>/dev/null || true; done; done
    rm -rf "$work"
}
trap leave EXIT

repository=$(sed -n 's/^repository = "\([^"]*\)".*/\1/p' Cargo.toml)
grep -qx "repository=$repository" packaging/install.sh || fail "the repository of install.sh is not $repository"

# release VERSION TEXT...: an archive in which the program is a script.
release() {
    local name=specreel-$1-$target; shift
    mkdir -p "$work/$name/man" "$work/$name/completions" "$work/$name/licenses"
    printf '%s\n' '#!/bin/sh' "$@" >"$work/$name/specreel"
    touch "$work/$name/man/specreel.1" "$work/$name"/completions/{specreel.bash,_specreel,specreel.fish} "$work/$name/licenses/LICENSE-MIT"
    chmod 755 "$work/$name/specreel"
    publish "$name"
}
# publish NAME [ARCHIVE]: ARCHIVE, or one of the directory NAME, with its sums and the script.
publish() {
    local folder=${1#specreel-}
    folder=$work/site/releases/download/v${folder%"-$target"}
    mkdir -p "$folder" && cp packaging/install.sh "$folder/"
    if [ -n "${2:-}" ]; then cp "$2" "$folder/$1.tar.gz"; else tar -C "$work" -c "$1" | gzip -1 >"$folder/$1.tar.gz"; fi
    (cd "$folder" && sha256sum -- * >SHA256SUMS)
}
if [ -z "$program" ]; then
    publish "specreel-$version-$target" "dist/specreel-$version-$target.tar.gz"
else
    release "$version"
    cp "$program" "$work/specreel-$version-$target/specreel" && publish "specreel-$version-$target"
fi
release 0.0.1 'echo specreel 0.0.1'
touch "$work/specreel-0.0.1-$target/man/specreel-old.1" && publish "specreel-0.0.1-$target"
site=$work/site/releases/download
release 0.0.2 'echo damaged' && sed -i 's/^.\{8\}/00000000/' "$site/v0.0.2/SHA256SUMS"
release 0.0.3 'echo truncated' && truncate -s -50 "$site/v0.0.3/specreel-0.0.3-$target.tar.gz"
release 0.0.4 'echo "cannot execute" >&2; exit 127'
release 0.0.5 'echo another system' && sed -i "s/$target/s390x-unknown-linux-gnu/" "$site/v0.0.5/SHA256SUMS"
release 0.0.6 'echo cut' && release 0.0.7 'echo slow'

# The newest release is a redirection, as on GitHub. The archive of 0.0.6 is cut on the way, that of 0.0.7 never arrives.
python3 - "$work/site" "$version" >"$work/port" 2>/dev/null <<'END' &
import functools, http.server, sys, time
class Handler(http.server.SimpleHTTPRequestHandler):
    def do_GET(self):
        if "/latest/download/" in self.path:
            self.send_response(302)
            self.send_header("Location", self.path.replace("latest/download", f"download/v{sys.argv[2]}"))
            return self.end_headers()
        if self.path.endswith(".gz") and ("v0.0.6" in self.path or "v0.0.7" in self.path):
            self.send_response(200)
            self.send_header("Content-Length", "100000")
            self.end_headers()
            self.wfile.write(bytes(100))
            self.wfile.flush()
            return time.sleep(30 if "v0.0.7" in self.path else 0)
        super().do_GET()
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=sys.argv[1]))
server.daemon_threads = True
print(server.server_port, flush=True)
server.serve_forever()
END
server=$!
for _ in $(seq 50); do [ ! -s "$work/port" ] || break; sleep 0.1; done
releases=http://127.0.0.1:$(cat "$work/port")/releases

# as_user COMMAND...: in the current root, with nothing of this machine but processor, kernel and loopback device.
as_user() {
    chroot --userspec=user:user "$root" env -i -C /home/user PATH="${path:-/usr/local/bin:/usr/bin:/bin}" HOME=/home/user LANG=C.UTF-8 SHELL=/bin/bash \
        SPECREEL_RELEASES="$releases" "$@"
}
script() { as_user sh /tmp/install.sh "$@"; }
# state: every file of the user, with mode and sum.
state() { (cd "$root/home/user" && find . -printf '%p %y %m\n' -type f -exec sha256sum {} + | sort); }
# refused TEXT COMMAND...: it must fail, say TEXT, and change nothing.
refused() {
    local text=$1 before; shift
    before=$(state)
    if "$@" >"$work/out" 2>&1; then fail "it should fail: $text"; fi
    grep -qF -e "$text" "$work/out" || fail "expected '$text', got: $(cat "$work/out")"
    [ "$(state)" = "$before" ] || fail "$text: something changed: $(diff <(echo "$before") <(state))"
    ok "$(grep -m 1 -F -e "$text" "$work/out")"
}
# fake NAME TEXT...: a command of the directory /fake, before all others.
fake() {
    local name=$1; shift
    mkdir -p "$root/fake" && printf '%s\n' '#!/bin/sh' "$@" >"$root/fake/$name" && chmod 755 "$root/fake/$name"
}
fake_uname() { fake uname "[ \$1 = -s ] && echo $1 || echo $2"; }
faked() { path=/fake:/usr/bin:/bin script "$@"; }

for tool in curl wget; do
    root=$roots/install-$suite-$tool
    if [ ! -e "$root/ready" ]; then
        rm -rf "$root" && mkdir -p "$roots"
        debootstrap --variant=minbase --include="$tool${PACKAGES:+,$PACKAGES}" "$suite" "$root" http://deb.debian.org/debian \
            >"$root.log" 2>&1 || fail "debootstrap, see $root.log"
        touch "$root/ready"
    fi
    for mount in proc dev; do mountpoint -q "$root/$mount" || mount --bind /$mount "$root/$mount"; done
    chroot "$root" sh -c 'userdel user 2>/dev/null; rm -rf /home/user && useradd --create-home --skel /var/empty user'
    cp packaging/install.sh "$root/tmp/install.sh"
    empty=$(state)

    say "$suite with $tool: install, update, remove"
    case $tool in
        curl) get='curl -fsSL' ;;
        wget) get='wget -qO-' ;;
    esac
    # shellcheck disable=SC2016
    piped='$0 "$SPECREEL_RELEASES/latest/download/install.sh" | sh -s -- "$@"'
    as_user sh -c "${piped/\$0/$get}" sh --version 0.0.1 >"$work/out" 2>"$work/err" || fail "$(cat "$work/err")"
    grep -qF 'installed specreel 0.0.1: /home/user/.local/bin/specreel' "$work/out" || fail "$(cat "$work/out")"
    grep -qF 'is not in PATH' "$work/out" || fail "$(cat "$work/out")"
    grep -qF '.bashrc' "$work/out" || fail "$(cat "$work/out")"
    [ "$(as_user .local/bin/specreel)" = "specreel 0.0.1" ] || fail "the program of 0.0.1"
    [ -e "$root/home/user/.local/share/man/man1/specreel-old.1" ] || fail "no man page"
    ok "version 0.0.1 is installed"
    refused "is damaged" script --version 0.0.2
    path=/home/user/.local/bin:/usr/bin:/bin as_user sh -c "${piped/\$0/$get}" >"$work/out" 2>"$work/err" || fail "$(cat "$work/err")"
    grep -qF "installed specreel $version" "$work/out" || fail "$(cat "$work/out")"
    ! grep -qF 'PATH' "$work/out" || fail "$(cat "$work/out")"
    [ ! -e "$root/home/user/.local/share/man/man1/specreel-old.1" ] || fail "a page of 0.0.1 is still there"
    [ -z "$(find "$root/home/user" -name '.specreel*')" ] || fail "a temporary directory is still there"
    ok "the newest version, $version, replaces it"
    told=$(as_user HOME=/tmp/user .local/bin/specreel --version) && echo "${told%%$'\n'*}"
    if [[ $told == "specreel $version"* ]]; then
        told=$(as_user HOME=/tmp/user .local/bin/specreel caption demo --quiet)
        [ "${#told}" -gt 40 ] || fail "no caption of demo"
        ok "caption demo: $told"
    fi
    installed=$(state)
    as_user mkdir .local/share/fish/mine && as_user touch .local/bin/mine .local/share/man/man1/mine.1
    script --uninstall
    left=$(cd "$root/home/user" && find .local -not -type d | sort)
    [ "$left" = $'.local/bin/mine\n.local/share/man/man1/mine.1' ] || fail "left after --uninstall: $left"
    as_user rm -r .local && as_user bash --posix /tmp/install.sh >/dev/null 2>&1
    [ "$(state)" = "$installed" ] || fail "bash installs something else: $(diff <(echo "$installed") <(state))"
    script --uninstall
    [ "$(state)" = "$empty" ] || fail "left after --uninstall: $(diff <(echo "$empty") <(state))"
    ok "--uninstall removes everything, but no file of the user"
    refused "has installed nothing" script --uninstall
    as_user SPECREEL_INSTALL_DIR="my programs" sh /tmp/install.sh --version v0.0.1 >/dev/null 2>&1
    [ "$(as_user "my programs/bin/specreel")" = "specreel 0.0.1" ] || fail "a directory with a space"
    as_user SPECREEL_INSTALL_DIR="/home/user/my programs/" sh /tmp/install.sh --uninstall
    [ "$(state)" = "$empty" ] || fail "left after --uninstall: $(diff <(echo "$empty") <(state))"
    ok "SPECREEL_INSTALL_DIR"

    say "$suite with $tool: nothing is installed"
    refused "is damaged" script --version 0.0.2
    refused "is damaged" script --version 0.0.3
    refused "does not start on this system" script --version 0.0.4
    refused "there is no program for $target" script --version 0.0.5
    refused "cannot download $releases/download/v0.0.6/specreel" script --version 0.0.6
    refused "cannot download $releases/download/v9.9.9/SHA256SUMS" script --version 9.9.9
    refused "cannot download http://127.0.0.1:1/latest" as_user SPECREEL_RELEASES=http://127.0.0.1:1 sh /tmp/install.sh
    refused "unexpected argument --upgrade" script --upgrade
    refused "cannot create /opt/specreel" as_user SPECREEL_INSTALL_DIR=/opt/specreel sh /tmp/install.sh
    refused "cannot write to /usr/bin" as_user SPECREEL_INSTALL_DIR=/usr sh /tmp/install.sh
    as_user mkdir -p .local/bin && as_user touch .local/bin/specreel
    refused "specreel is there, but not from this script" script
    as_user rm -r .local
    for signal in INT TERM; do
        # A signal to the whole group, as Ctrl-C in a terminal sends it.
        refused "downloading" timeout --kill-after=20 --signal=$signal 2 chroot --userspec=user:user "$root" env -i HOME=/home/user \
            PATH=/usr/bin:/bin SPECREEL_RELEASES="$releases" sh /tmp/install.sh --version 0.0.7
    done

    # The last bytes one by one; the others by steps.
    size=$(stat -c %s packaging/install.sh)
    for bytes in $(seq 1 61 $((size - 200))) $(seq $((size - 200)) $((size - 2))); do
        head -c "$bytes" packaging/install.sh | as_user sh >"$work/out" 2>&1 || true
        [ "$(state)" = "$empty" ] || fail "something changed with the first $bytes bytes of the script: $(cat "$work/out")"
    done
    ok "a script that was cut off does nothing"

    say "$suite with $tool: other systems"
    fake getconf 'exit 1' && fake ldd 'echo "musl libc (x86_64)" >&2; echo "Version 1.2.5" >&2; exit 1'
    refused "needs glibc, and this system has musl" faked
    fake ldd 'exit 127'
    refused "needs glibc, which was not found" faked
    fake ldd 'echo "ldd (GNU libc) 2.17"'
    refused "this system has 2.17" faked
    fake getconf 'echo glibc 2.27'
    refused "this system has 2.27" faked
    fake getconf "[ \$1 = LONG_BIT ] && echo 32 || echo glibc 3.0"
    refused "needs a 64-bit system" faked
    rm "$root/fake/getconf" "$root/fake/ldd"
    fake_uname Linux riscv64
    refused "no program for the processor riscv64" faked
    fake_uname FreeBSD amd64
    refused "no program for FreeBSD" faked
    fake_uname MINGW64_NT-10.0 x86_64
    refused "does not run on Windows" faked
    fake_uname Darwin x86_64 && fake sysctl 'echo 0'
    refused "no program for x86_64-apple-darwin" faked
    fake sysctl 'echo 1'
    refused "no program for aarch64-apple-darwin" faked
    rm -r "$root/fake"
done
printf '\n%s passed, 0 failed\n' "$passed"
