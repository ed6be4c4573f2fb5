#!/bin/sh
# Asks a server with the official packages of OpenAI, Anthropic and the Model Context Protocol, for Python and for Node.
#
# test-clients.sh [PROGRAM]: PROGRAM is specreel (default target/release/specreel). Installs the packages from PyPI and npm below
# target/clients, or $CLIENTS. Needs python3 with venv, node 20 and npm.
set -eu
cd "$(dirname "$0")/.."
program=${1:-target/release/specreel}
clients=${CLIENTS:-target/clients}
[ -x "$program" ] || { echo "test-clients: no program $program; build it, or name another" >&2; exit 2; }
mkdir -p "$clients"
clients=$(cd "$clients" && pwd)

[ -x "$clients/venv/bin/python" ] || python3 -m venv "$clients/venv"
"$clients/venv/bin/pip" install -q --disable-pip-version-check openai==3.57.0 anthropic==2.14.0 mcp==2.3.0
cp scripts/clients/clients.mjs "$clients/"
npm install --prefix "$clients" --silent --no-audit --no-fund openai@6.49.0 @anthropic-ai/sdk@1.14.0 \
    @modelcontextprotocol/sdk@1.32.2

home=$(mktemp -d)
HOME=$home SPECREEL_API_KEY=secret "$program" serve --port 0 --allow-dir "$home" >"$home/address" 2>"$home/log" &
server=$!
trap 'kill $server 2>/dev/null; wait $server 2>/dev/null || true; rm -rf "$home"' EXIT
for _ in $(seq 600); do [ -s "$home/address" ] && break; sleep 0.1; done
[ -s "$home/address" ] || { cat "$home/log" >&2; exit 1; }
address=$(cat "$home/address")

"$clients/venv/bin/python" scripts/clients/clients.py "$address" secret
node "$clients/clients.mjs" "$address" secret
echo "test-clients: passed"
