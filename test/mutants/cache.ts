/**
 * Measurements of the same sources are reused: a run that was stopped continues. Everything but the test files
 * themselves counts as sources; a test file belongs to the key of its own measurement.
 */
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { appendFileSync, existsSync, mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

export const hash = (text: string | Buffer) => createHash('sha256').update(text).digest('hex').slice(0, 24);

/** Hashes all files that are not tests or documents, uncommitted changes included. */
function hashOfSources(root: string): string {
  const listed = execFileSync('git', ['ls-files', '-z', '--cached', '--others', '--exclude-standard'], {
    cwd: root,
    encoding: 'utf8',
    maxBuffer: 2 ** 26,
  });
  const files = listed
    .split('\0')
    .filter((file) => file !== '' && !isApart(file) && existsSync(join(root, file)));
  return hash(files.map((file) => `${file} ${hash(readFileSync(join(root, file)))}`).join('\n'));
}

const isApart = (file: string) => /\.test\.ts$|\.md$|^test\/mutants\/|^docs\//.test(file);

export interface Cache<T> {
  readonly find: (key: string) => T | undefined;
  /** @returns the value */
  readonly keep: (key: string, value: T) => T;
}

/** @param name one for each kind of value */
export function cached<T>(root: string, name: string): Cache<T> {
  const folder = join(root, 'node_modules', '.cache', 'mutants');
  mkdirSync(folder, { recursive: true });
  const path = join(folder, `${name}-${hashOfSources(root)}.jsonl`);
  const lines = existsSync(path) ? readFileSync(path, 'utf8').split('\n') : [];
  // The last line of a run that was killed may be cut.
  const known = new Map<string, T>(lines.flatMap((line) => (line.endsWith(']') ? [JSON.parse(line)] : [])));
  return {
    find: (key) => known.get(hash(key)),
    keep(key, value) {
      appendFileSync(path, `${JSON.stringify([hash(key), value])}\n`);
      known.set(hash(key), value);
      return value;
    },
  };
}
