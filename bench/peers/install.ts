/**
 * `npm run bench:install [-- <name>...]`. In: names of peers, all without one. Out: each with its pinned packages in
 * bench/peers/.installed/<name>, and a note of what is there.
 * Trap: the note is written last; a peer whose installation broke off, or whose pins changed since, is not installed.
 */
import { execFileSync } from 'node:child_process';
import { copyFileSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import {
  INSTALLED,
  noteFile,
  PEER_NAMES,
  type PeerName,
  type PeerNote,
  pinsFile,
  pinsOf,
} from './installed.ts';

const STEP_LIMIT_MS = 900_000;

function run(command: string, args: readonly string[], cwd: string): string {
  return execFileSync(command, args, {
    cwd,
    encoding: 'utf8',
    timeout: STEP_LIMIT_MS,
    stdio: ['ignore', 'pipe', 'inherit'],
    maxBuffer: 64 * 1024 * 1024,
  });
}

function installNode(folder: string): Record<string, string> {
  run('npm', ['install', '--ignore-scripts', '--no-audit', '--no-fund', '--no-package-lock'], folder);
  const { dependencies } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as PeerPackage;
  return dependencies;
}

interface PeerPackage {
  readonly dependencies: Record<string, string>;
}

function installPython(name: PeerName, folder: string): Record<string, string> {
  run('python3', ['-m', 'venv', 'venv'], folder);
  const python = join(folder, 'venv', 'bin', 'python');
  run(python, ['-m', 'pip', 'install', '--quiet', '-r', pinsFile(name)], folder);
  const all = JSON.parse(run(python, ['-m', 'pip', 'list', '--format', 'json'], folder)) as PythonPackage[];
  const pins = pinsOf(name).toLowerCase();
  const pinned = all.filter((each) => new RegExp(`^${each.name.toLowerCase()}(\\[|==)`, 'm').test(pins));
  const interpreter = run(python, ['-c', 'import platform; print(platform.python_version())'], folder).trim();
  return { python: interpreter, ...Object.fromEntries(pinned.map((each) => [each.name, each.version])) };
}

interface PythonPackage {
  readonly name: string;
  readonly version: string;
}

function install(name: PeerName): void {
  const folder = join(INSTALLED, name);
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  const isNode = pinsFile(name).endsWith('package.json');
  if (isNode) copyFileSync(pinsFile(name), join(folder, 'package.json'));
  const versions = isNode ? installNode(folder) : installPython(name, folder);
  const note: PeerNote = { pins: pinsOf(name), versions };
  writeFileSync(noteFile(name), `${JSON.stringify(note, undefined, 2)}\n`);
  const text = Object.entries(versions).map(([one, version]) => `${one} ${version}`);
  console.log(`${name}: ${text.join(', ')}`);
}

function main(names: readonly string[]): number {
  const unknown = names.filter((name) => !PEER_NAMES.includes(name as PeerName));
  if (unknown.length > 0) {
    console.error(`no peer ${unknown.join(', ')}; there are ${PEER_NAMES.join(', ')}`);
    return 2;
  }
  const failed: string[] = [];
  for (const name of names.length > 0 ? (names as PeerName[]) : PEER_NAMES) {
    try {
      install(name);
    } catch (error) {
      failed.push(name);
      console.error(`${name}: ${error instanceof Error ? error.message : String(error)}`);
    }
  }
  console.log(`installed in ${INSTALLED}: ${readdirSync(INSTALLED).join(', ')}`);
  return failed.length > 0 ? 1 : 0;
}

process.exitCode = main(process.argv.slice(2));
