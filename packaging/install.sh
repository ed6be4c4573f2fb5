#!/bin/sh
# Installs, updates or removes the released program, on Linux and macOS, without root:
#
#     curl -fsSL https://github.com/specreel/specreel/releases/latest/download/install.sh | sh
#
# Everything is in functions, and the last line calls them, so that a download that was cut off does nothing.
set -eu

repository=https://github.com/specreel/specreel
elsewhere="build it from source ($repository), or use the container image ghcr.io/specreel/specreel"
# Below the prefix, parents first.
directories="bin share share/man share/man/man1 share/bash-completion share/bash-completion/completions share/zsh
    share/zsh/site-functions share/fish share/fish/vendor_completions.d share/doc share/doc/specreel"
# What was installed, one path a line. Directories that were not there before end with a slash; the prefix itself is `./`.
list=share/doc/specreel/installed-files

usage() {
    cat <<END
Installs specreel below ~/.local: the program, man pages and shell completions.

usage: install.sh [--version VERSION]    install the newest version, or VERSION
       install.sh --uninstall            remove what was installed; settings, models and captions stay

environment:
  SPECREEL_INSTALL_DIR   install here instead of ~/.local
  SPECREEL_RELEASES      download from this address (default $repository/releases)
END
}

# fail MESSAGE [HINT]
fail() {
    printf 'error: %s\n' "$1" >&2
    [ -z "${2:-}" ] || printf 'hint: %s\n' "$2" >&2
    exit 1
}

have() { command -v "$1" >/dev/null 2>&1; }

# Sets `target`, the name that a release gives to this kind of system.
find_target() {
    system=$(uname -s) machine=$(uname -m)
    case $system in
        Linux)
            check_glibc
            # A 32-bit system on a 64-bit kernel.
            [ "$(getconf LONG_BIT 2>/dev/null || echo 64)" = 64 ] || fail "the program needs a 64-bit system"
            target=unknown-linux-gnu
            ;;
        Darwin)
            # Rosetta shows an Intel processor on an ARM Mac.
            [ "$(sysctl -n sysctl.proc_translated 2>/dev/null || true)" != 1 ] || machine=arm64
            target=apple-darwin
            ;;
        MINGW* | MSYS* | CYGWIN*) fail "this script does not run on Windows" "use install.ps1 of the same release in PowerShell" ;;
        *) fail "there is no program for $system" "$elsewhere" ;;
    esac
    case $machine in
        x86_64 | amd64) target=x86_64-$target ;;
        aarch64 | arm64) target=aarch64-$target ;;
        *) fail "there is no program for the processor $machine" "$elsewhere" ;;
    esac
}

check_glibc() {
    libc=$(getconf GNU_LIBC_VERSION 2>/dev/null) || libc=$(ldd --version 2>&1 | head -n 1)
    case $libc in
        *musl*) fail "the program needs glibc, and this system has musl instead" "$elsewhere" ;;
        glibc* | *GLIBC* | *"GNU libc"*) ;;
        *) fail "the program needs glibc, which was not found" "$elsewhere" ;;
    esac
    libc=${libc##* }
    major=${libc%%.*} minor=${libc#*.}
    minor=${minor%%[!0-9]*}
    if [ "$major" -lt 2 ] || { [ "$major" -eq 2 ] && [ "$minor" -lt 28 ]; }; then
        fail "the program needs glibc 2.28 or later, and this system has $libc" "$elsewhere"
    fi
}

# fetch URL FILE [--progress-bar]
fetch() {
    if have curl; then
        case $1 in
            https://*) protocols='=https' ;;
            *) protocols='=http,https' ;;
        esac
        curl --proto "$protocols" --fail --location --retry 3 "${3:---silent}" --show-error --output "$2" "$1"
    else
        wget -q -O "$2" "$1"
    fi
}

sha256() {
    if have sha256sum; then sha256sum "$1"; else shasum -a 256 "$1"; fi | cut -d ' ' -f 1
}

# place FILE PATH: moves a file to its place below the prefix. A rename replaces the old file as a whole.
place() {
    mv -f "$1" "$prefix/$2"
    printf '%s\n' "$2" >>"$temporary/list"
}

# Removes a directory that this script has made, unless it is in use.
remove_directory() {
    case $1 in
        .) rmdir "$prefix" 2>/dev/null || true ;;
        *) rmdir "$prefix/$1" 2>/dev/null || true ;;
    esac
}

# Removes what an installation that did not finish has left.
clean_up() {
    [ -z "${temporary:-}" ] || rm -rf "$temporary"
    for directory in $created; do remove_directory "$directory"; done
}

install_program() {
    find_target
    have curl || have wget || fail "neither curl nor wget was found" "install one of them"
    have sha256sum || have shasum || fail "neither sha256sum nor shasum was found" "install one of them"
    have tar || fail "tar was not found" "install it"

    created=''
    trap clean_up EXIT
    trap 'exit 129' HUP
    trap 'exit 130' INT
    trap 'exit 143' TERM
    choose="choose another directory: SPECREEL_INSTALL_DIR=DIR"
    if [ ! -d "$prefix" ]; then
        mkdir -p "$prefix" || fail "cannot create $prefix" "$choose"
        created=.
    fi
    for directory in $directories; do
        if [ ! -d "$prefix/$directory" ]; then
            mkdir "$prefix/$directory" || fail "cannot create $prefix/$directory" "$choose"
            created="$directory $created"
        fi
        [ -w "$prefix/$directory" ] || fail "cannot write to $prefix/$directory" "$choose"
    done
    if [ -e "$prefix/bin/specreel" ] && ! grep -qsxF bin/specreel "$prefix/$list"; then
        fail "$prefix/bin/specreel is there, but not from this script" "uninstall it as it was installed (uv, pipx, cargo), or $choose"
    fi
    # On the file system of the program, so that it can be renamed.
    temporary=$(mktemp -d "$prefix/bin/.specreel.XXXXXX")

    from=$releases/latest/download
    [ -z "$version" ] || from=$releases/download/v$version
    fetch "$from/SHA256SUMS" "$temporary/sums" ||
        fail "cannot download $from/SHA256SUMS" "check the connection${version:+, and that there is a version $version}: $releases"
    line=$(grep "^[0-9a-f]\{64\}  specreel-[^ ]*-$target\.tar\.gz\$" "$temporary/sums" | head -n 1)
    [ -n "$line" ] || fail "there is no program for $target in $from/SHA256SUMS" "$elsewhere"
    archive=${line##* }
    name=${archive%.tar.gz}
    version=${name#specreel-} version=${version%"-$target"}

    # The sums may be those of the latest release, and a newer one may appear in between.
    url=$releases/download/v$version/$archive
    printf 'downloading %s\n' "$url" >&2
    bar=''
    [ ! -t 2 ] || bar=--progress-bar
    fetch "$url" "$temporary/$archive" "$bar" || fail "cannot download $url" "check the connection and try again"
    [ "$(sha256 "$temporary/$archive")" = "${line%% *}" ] ||
        fail "$url is damaged: its SHA-256 sum is not that of SHA256SUMS" "try again; if this persists, please report it: $repository/issues"
    tar -xzf "$temporary/$archive" -C "$temporary" || fail "cannot unpack $archive" "check that the disk of $prefix has space"
    files=$temporary/$name
    "$files/specreel" --version >/dev/null || fail "the program does not start on this system" "$elsewhere"

    # Nothing may stop what follows half way; it only renames files.
    trap '' HUP INT TERM
    for page in "$files"/man/*.1; do place "$page" "share/man/man1/${page##*/}"; done
    place "$files/completions/specreel.bash" share/bash-completion/completions/specreel
    place "$files/completions/_specreel" share/zsh/site-functions/_specreel
    place "$files/completions/specreel.fish" share/fish/vendor_completions.d/specreel.fish
    for text in "$files"/licenses/*; do place "$text" "share/doc/specreel/${text##*/}"; done
    place "$files/specreel" bin/specreel
    # Files of an earlier version that this one does not have.
    if [ -f "$prefix/$list" ]; then
        while read -r path; do
            case $path in
                */) created="$created ${path%/}" ;;
                *) grep -qxF "$path" "$temporary/list" || rm -f "$prefix/$path" ;;
            esac
        done <"$prefix/$list"
    fi
    for directory in $created; do printf '%s/\n' "$directory"; done >>"$temporary/list"
    mv -f "$temporary/list" "$prefix/$list"
    created=''

    printf 'installed specreel %s: %s\n' "$version" "$prefix/bin/specreel"
    tell_path
}

# Says how to reach the program, if its name alone does not start it.
tell_path() {
    case ":$PATH:" in
        *":$prefix/bin:"*)
            found=$(command -v specreel) || return 0
            [ "$found" = "$prefix/bin/specreel" ] || printf 'note: %s comes before it in PATH\n' "$found"
            return
            ;;
    esac
    printf 'note: %s is not in PATH. Add it with this command, and open a new terminal:\n' "$prefix/bin"
    # The variable is expanded by the shell that reads the line.
    # shellcheck disable=SC2016
    line='export PATH="'$prefix'/bin:$PATH"'
    case ${SHELL:-} in
        */fish) printf '    fish_add_path "%s/bin"\n' "$prefix" ;;
        */zsh) printf "    echo '%s' >>~/.zshrc\n" "$line" ;;
        */bash) printf "    echo '%s' >>~/.bashrc\n" "$line" ;;
        *) printf "    echo '%s' >>~/.profile\n" "$line" ;;
    esac
}

uninstall_program() {
    [ -f "$prefix/$list" ] || fail "this script has installed nothing below $prefix" \
        "if it did elsewhere: SPECREEL_INSTALL_DIR=DIR. A program from another source is removed where it came from"
    [ -w "$prefix/bin" ] || fail "cannot write to $prefix/bin"
    while read -r path; do
        case $path in
            */) remove_directory "${path%/}" ;;
            *) rm -f "$prefix/$path" ;;
        esac
    done <<END
$(grep -v '/$' "$prefix/$list")
$list
$(grep '/$' "$prefix/$list")
END
    printf 'removed specreel from %s; settings, models and captions are still there\n' "$prefix"
}

main() {
    version='' action=install_program
    while [ $# -gt 0 ]; do
        case $1 in
            --version)
                [ -n "${2:-}" ] || fail "--version needs a value" "for example: --version 0.1.0"
                version=${2#v}
                shift
                ;;
            --uninstall) action=uninstall_program ;;
            -h | --help) usage && return ;;
            *) fail "unexpected argument $1" "see --help" ;;
        esac
        shift
    done
    releases=${SPECREEL_RELEASES:-$repository/releases}
    releases=${releases%/}
    prefix=${SPECREEL_INSTALL_DIR:-${HOME:+$HOME/.local}}
    case $prefix in
        '') fail "HOME is not set" "choose a directory: SPECREEL_INSTALL_DIR=DIR" ;;
        /*) prefix=${prefix%/} ;;
        *) prefix=$PWD/${prefix%/} ;;
    esac
    $action
}

# In braces, so that half of this line does nothing either.
{ main "$@"; }
