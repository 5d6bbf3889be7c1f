/**
 * In: the name of a peer. Out: where it is installed and in which versions, or that it is not.
 * Trap: pins that changed after an installation would put a wrong version into the report; such a peer is not installed.
 */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const FOLDER = fileURLToPath(new URL('.', import.meta.url));
/** Git-ignored. */
export const INSTALLED = join(FOLDER, '.installed');

export const PEER_NAMES = [
  'fastify',
  'fastapi',
  'bullmq',
  'bentoml',
  'litserve',
  'mlserver',
  'ray-serve',
] as const;

export type PeerName = (typeof PEER_NAMES)[number];

export const NOT_INSTALLED = 'run npm run bench:install';

/** What an installation leaves behind when it is whole. */
export interface PeerNote {
  /** The pins file as it was. */
  readonly pins: string;
  readonly versions: Readonly<Record<string, string>>;
}

export interface InstalledPeer {
  readonly name: PeerName;
  readonly folder: string;
  /** With the peer's own program. */
  readonly source: string;
  readonly versions: Readonly<Record<string, string>>;
}

/** A package.json, or a requirements.txt for Python. */
export function pinsFile(name: PeerName): string {
  const manifest = join(FOLDER, name, 'package.json');
  return existsSync(manifest) ? manifest : join(FOLDER, name, 'requirements.txt');
}

export function pinsOf(name: PeerName): string {
  return readFileSync(pinsFile(name), 'utf8');
}

export function noteFile(name: PeerName): string {
  return join(INSTALLED, name, 'installed.json');
}

export function installedPeer(name: PeerName): InstalledPeer | undefined {
  if (!existsSync(noteFile(name))) return undefined;
  const { pins, versions } = JSON.parse(readFileSync(noteFile(name), 'utf8')) as PeerNote;
  if (pins !== pinsOf(name)) return undefined;
  return { name, folder: join(INSTALLED, name), source: join(FOLDER, name), versions };
}

/** "fastify 5.12.8" */
export function versionText(peer: InstalledPeer): string {
  return Object.entries(peer.versions)
    .map(([name, version]) => `${name} ${version}`)
    .join(', ');
}
