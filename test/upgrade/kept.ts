/**
 * The data of the previous landed version (kept.tar.br, made by keep.ts): its packages, its entries in Redis, S3 and
 * SQS, and its answers when it runs on them again. One file, because a checkout of a build has no history from which to
 * take them.
 */
import { execFileSync } from 'node:child_process';
import { mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { brotliCompressSync, brotliDecompressSync, constants } from 'node:zlib';
import type * as code from './code.ts';
import type { Stored } from './stored.ts';

/** The exports of a version that the tests use. */
export type Code = Pick<
  typeof code,
  | 'InputQueue'
  | 'OutputQueue'
  | 'functionFile'
  | 'functionEnvironment'
  | 'publish'
  | 'rollBack'
  | 'listVersions'
>;

const KEPT = fileURLToPath(new URL('kept.tar.br', import.meta.url));
const PROJECT = fileURLToPath(new URL('../..', import.meta.url));
const MOST_BYTES = 300_000;
const UNPACKED_BYTES = 16 * 1024 * 1024;

/** The bundles, and beside them the data. */
const DATA = 'kept.json';

export interface KeptData {
  /** Commit of the version. */
  readonly commit: string;
  readonly stored: Stored;
  /** By the name of the question. */
  readonly answers: Readonly<Record<string, unknown>>;
}

/** @param folder of the bundles; the data is written into it. @returns the bytes of the file */
export async function keep(folder: string, data: KeptData): Promise<number> {
  await writeFile(join(folder, DATA), JSON.stringify(data));
  const names = (await readdir(folder)).sort();
  const same = ['--mtime=@0', '--owner=0', '--group=0', '--numeric-owner', '--mode=644'];
  const tar = execFileSync('tar', ['-c', '-C', folder, ...same, ...names], { maxBuffer: UNPACKED_BYTES });
  const { BROTLI_PARAM_LGWIN: window, BROTLI_PARAM_QUALITY: quality } = constants;
  const packed = brotliCompressSync(tar, { params: { [window]: 24, [quality]: 11 } });
  if (packed.length > MOST_BYTES) throw new Error(`${packed.length} bytes are over ${MOST_BYTES}`);
  await writeFile(KEPT, packed);
  return packed.length;
}

async function unpack(names: readonly string[] = []): Promise<string> {
  const root = await mkdtemp(join(tmpdir(), 'cs-kept-'));
  const tar = brotliDecompressSync(await readFile(KEPT), { maxOutputLength: UNPACKED_BYTES });
  execFileSync('tar', ['-x', '-C', root, ...names], { input: tar });
  return root;
}

export async function readKept(): Promise<KeptData> {
  const root = await unpack([DATA]);
  const text = await readFile(join(root, DATA), 'utf8');
  await rm(root, { recursive: true });
  return JSON.parse(text) as KeptData;
}

/** The code of the previous landed version, with the packages of npm that this checkout has. */
export async function openKeptCode(): Promise<{ readonly code: Code; remove(): Promise<void> }> {
  const root = await unpack();
  await symlink(join(PROJECT, 'node_modules'), join(root, 'node_modules'));
  const kept = (await import(pathToFileURL(join(root, 'code.mjs')).href)) as Code;
  return { code: kept, remove: () => rm(root, { recursive: true, force: true }) };
}
