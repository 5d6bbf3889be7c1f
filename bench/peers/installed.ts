/** Where peers are installed. One whose pins changed since would put a wrong version into a report: it is not installed. */

import { existsSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { present } from '../../lib/contract/present.ts';

const FOLDER = fileURLToPath(new URL('.', import.meta.url));
/** Git-ignored. */
export const INSTALLED = join(FOLDER, '.installed');

export const PEER_NAMES = [
  'fastify',
  'fastapi',
  'axum',
  'bullmq',
  'bunqueue',
  'bentoml',
  'litserve',
  'mlserver',
  'ray-serve',
  'aws-lambda-ric',
  'lambda-python',
  'lambda-rust',
] as const;

export type PeerName = (typeof PEER_NAMES)[number];

export const NOT_INSTALLED = 'run npm run bench:install';

export interface InstalledPeer {
  readonly name: PeerName;
  readonly folder: string;
  /** With the peer's own program. */
  readonly source: string;
}

/** A package.json, a Cargo.toml for Rust, or a requirements.txt for Python. */
export function pinsFile(name: PeerName): string {
  const files = ['package.json', 'Cargo.toml', 'requirements.txt'].map((file) => join(FOLDER, name, file));
  return present(
    files.find((file) => existsSync(file)),
    'fitting element of files',
  );
}

/** A copy of the pins, written when the installation is complete. */
export function noteFile(name: PeerName): string {
  return join(INSTALLED, name, 'installed-pins');
}

export function installedPeer(name: PeerName): InstalledPeer | undefined {
  const note = noteFile(name);
  if (!existsSync(note) || readFileSync(note, 'utf8') !== readFileSync(pinsFile(name), 'utf8'))
    return undefined;
  return { name, folder: join(INSTALLED, name), source: join(FOLDER, name) };
}

/** The packages that a peer pins, with their versions. */
export function pinsOf(name: PeerName): Readonly<Record<string, string>> {
  const text = readFileSync(pinsFile(name), 'utf8');
  if (text.startsWith('{'))
    return (JSON.parse(text) as { dependencies: Record<string, string> }).dependencies;
  const crates = [...text.matchAll(/^(\S+) = .*"=([^"]+)"/gm)];
  if (crates.length > 0)
    return Object.fromEntries(crates.map(([, crate = '', version = '']) => [crate, version]));
  const lines = text.trim().split('\n');
  return Object.fromEntries(lines.map((line) => line.split('==') as [string, string]));
}

/** The library of onnxruntime-node itself, which the peers in Rust load. */
export function onnxruntimeLibrary(): string {
  const { resolve } = createRequire(import.meta.url);
  const binaries = join(dirname(resolve('onnxruntime-node/package.json')), 'bin', 'napi-v6');
  return join(binaries, process.platform, process.arch, 'libonnxruntime.so.1');
}
