#!/usr/bin/env node
// Starts the program of the package for this system.
'use strict';

const { spawn } = require('node:child_process');
const os = require('node:os');

function fail(message, hint) {
  console.error(`error: ${message}\nhint: ${hint}`);
  process.exit(1);
}

const system = `${process.platform}-${process.arch}`;
const build = 'build it from source: cargo install --path . in a copy of the repository';
// Node's report names the version of glibc only where there is one.
if (process.platform === 'linux' && !process.report.getReport().header.glibcVersionRuntime) {
  fail('specreel needs glibc 2.28 or later; this system uses musl (Alpine)', `use an image with glibc, such as node:slim, or ${build}`);
}

let program;
try {
  program = require.resolve(`@specreel/${system}/bin/specreel${process.platform === 'win32' ? '.exe' : ''}`);
} catch {
  const supported = Object.keys(require('./package.json').optionalDependencies).map((name) => name.split('/')[1]);
  if (supported.includes(system)) {
    fail(`the package @specreel/${system} is not installed`, 'install specreel without --omit=optional or --no-optional');
  }
  fail(`there is no specreel for ${system}; there is one for ${supported.join(', ')}`, build);
}

const child = spawn(program, process.argv.slice(2), { stdio: 'inherit' });
// The terminal sends Ctrl-C to both; the program decides what it means. Other signals come to this process alone.
process.on('SIGINT', () => {});
for (const signal of ['SIGTERM', 'SIGHUP']) process.on(signal, () => child.kill(signal));
child.on('error', (error) => {
  if (error.code === 'ENOENT') {
    // The file is there, but not the system's loader that it names.
    fail(`cannot start ${program}: this system has no standard loader (NixOS)`, 'use the flake in packaging/nix, or enable programs.nix-ld');
  }
  fail(`cannot start ${program}: ${error.message}`, 'install specreel again');
});
child.on('exit', (code, signal) => process.exit(signal ? 128 + os.constants.signals[signal] : code));
