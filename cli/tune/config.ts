/**
 * Writes settings into a config.yaml and changes nothing else: values are replaced in place, also under an old key or
 * in another spelling, and comments and order stay. The result is parsed again, and refused if it differs from the
 * intended settings.
 */

import { chmod, readFile, realpath, rename, rm, stat, writeFile } from 'node:fs/promises';
import { diff } from 'node:util';
import { isMap, isScalar, type Pair, parseDocument, type YAMLMap } from 'yaml';
import { readConfigText } from '../../lib/config/file.ts';
import type { JobConfig } from '../../lib/config/job.ts';
import { LEGACY } from '../../lib/config/legacy.ts';
import { asError, ServingError } from '../../lib/contract/errors.ts';
import { present } from '../../lib/contract/present.ts';
import { plainWord } from '../../lib/contract/suggest.ts';
import { confirmed } from '../confirm.ts';
import type { Output } from '../output.ts';
import type { ConfigChange } from './recommend.ts';

/** @returns the changed lines; undefined when the user declined */
export async function writeConfig(
  path: string,
  change: ConfigChange,
  isYes: boolean,
  output: Output,
): Promise<readonly string[] | undefined> {
  const before = await textOf(path);
  const after = changedConfig(before, change, path);
  const lines = diffOf(before, after);
  if (lines.length === 0) {
    output.note(`${path} says so already`);
    return [];
  }
  output.note([`${path}:`, ...lines].join('\n  '));
  if (!isYes && !(await confirmed(`changes ${path} so`))) return undefined;
  if ((await textOf(path)) !== before) {
    throw new ServingError('conflict', `${path} was changed meanwhile; nothing was written`);
  }
  await replace(path, after);
  return lines;
}

async function textOf(path: string): Promise<string> {
  return await readFile(path, 'utf8').catch((cause: Error) => {
    throw new ServingError('bad_config', `config ${path} cannot be read: ${cause.message}`, { cause });
  });
}

/** Replaces the file atomically, so that a reader sees the old or the new one. A link stays a link. */
async function replace(path: string, text: string): Promise<void> {
  const file = await realpath(path);
  const partial = `${file}.${process.pid}.partial`;
  try {
    await writeFile(partial, text, { flag: 'wx' });
    await chmod(partial, (await stat(file)).mode);
    await rename(partial, file);
  } catch (cause) {
    await rm(partial, { force: true });
    const message = `config ${path} cannot be written: ${asError(cause).message}`;
    throw new ServingError('bad_config', message, { cause });
  }
}

/**
 * @param name of the text in errors
 * @throws bad_config with the lines to write, when the text is not a config or cannot be changed safely
 */
export function changedConfig(text: string, change: ConfigChange, name: string): string {
  const { job } = readConfigText(text, name);
  const wanted = structuredClone(job);
  // Windows line endings are kept.
  const isCrlf = /\r\n/.test(text) && !/(?<!\r)\n/.test(text);
  let edited = isCrlf ? text.replaceAll('\r\n', '\n') : text;
  for (const [path, value] of Object.entries(change)) {
    const keys = path.split('.');
    const last = present(keys.pop(), 'key');
    let parent: Record<string, unknown> = Object(wanted);
    for (const key of keys) parent = Object(parent[key]);
    if (parent[last] !== value) edited = withSetting(edited, path, value);
    parent[last] = value;
  }
  if (isCrlf) edited = edited.replaceAll('\n', '\r\n');
  if (JSON.stringify(jobIn(edited, name)) === JSON.stringify(wanted)) return edited;
  const message = `${name}: its keys cannot be changed one by one (anchors, perhaps); write by hand`;
  throw new ServingError('bad_config', `${message}:\n${linesOf(change)}`);
}

function jobIn(text: string, name: string): JobConfig | undefined {
  try {
    return readConfigText(text, name).job;
  } catch {
    return undefined;
  }
}

/** The lines of a config.yaml with these settings. */
export function linesOf(change: ConfigChange): string {
  const groups = Map.groupBy(Object.entries(change), ([path]) => path.split('.').at(-2) ?? '');
  const lines = [...groups].flatMap(([group, entries]) => [
    ...(group === '' ? [] : [`${group}:`]),
    ...entries.map(([path, value]) => `${group === '' ? '' : '  '}${path.split('.').at(-1)}: ${value}`),
  ]);
  return lines.join('\n');
}

/** The lines that differ. */
export function diffOf(before: string, after: string): string[] {
  const entries = diff(before.split('\n'), after.split('\n'));
  return entries.flatMap(([side, line]) => (side === 0 ? [] : [`${side > 0 ? '-' : '+'} ${line}`]));
}

/**
 * Sets a value under each key that holds it as a plain number, current (`batchSize`) or old (`params.core_number`).
 */
function withSetting(text: string, path: string, value: number): string {
  const options = { schema: 'failsafe', resolveKnownTags: false, uniqueKeys: false } as const;
  const { contents } = parseDocument(text, options);
  const root = isMap(contents) ? contents : undefined;
  const old = [...LEGACY].flatMap(([name, rule]) =>
    rule.outcome === 'works' && !rule.convert && rule.sets === path ? [name] : [],
  );
  const pairs = root ? [...new Set([path, ...old])].flatMap((name) => pairOf(root, name) ?? []) : [];
  if (pairs.length === 0) return withNewKey(text, root, path, value);
  // From the end, so that earlier positions stay valid.
  return pairs
    .toSorted((a, b) => startOf(b) - startOf(a))
    .reduce((edited, pair) => withValue(edited, pair, value), text);
}

function pairOf(root: YAMLMap, name: string): Pair | undefined {
  const [first = '', second] = name.split('.');
  const pair = pairIn(root, first);
  if (second === undefined || !pair) return pair;
  return isMap(pair.value) ? pairIn(pair.value, second) : undefined;
}

function pairIn(map: YAMLMap, key: string): Pair | undefined {
  return map.items.find((item) => isScalar(item.key) && plainWord(String(item.key.value)) === plainWord(key));
}

function startOf({ key }: Pair): number {
  return isScalar(key) ? (key.range?.[0] ?? 0) : 0;
}

function withValue(text: string, { key, value }: Pair, number: number): string {
  const range = isScalar(value) ? value.range : undefined;
  if (range && range[1] > range[0]) return `${text.slice(0, range[0])}${number}${text.slice(range[1])}`;
  // For `batchSize:` without a value, right after the colon.
  const colon = text.indexOf(':', isScalar(key) ? key.range?.[1] : 0);
  return colon < 0 ? text : `${text.slice(0, colon + 1)} ${number}${text.slice(colon + 1)}`;
}

function withNewKey(text: string, root: YAMLMap | undefined, path: string, value: number): string {
  const [key = '', group] = path.split('.').reverse();
  const entry = `${key}: ${value}`;
  const ended = text === '' || text.endsWith('\n') ? text : `${text}\n`;
  const pair = group === undefined || !root ? undefined : pairIn(root, group);
  if (group !== undefined && !pair) return `${ended}${group}:\n  ${entry}\n`;
  const map = pair ? pair.value : root;
  if (pair && !(isMap(map) && map.flow)) return insertedInGroup(text, pair, key, entry);
  if (!pair) {
    const lines = ended.split('\n');
    const comment = lines.findIndex((line) => new RegExp(`^# *${key}:`).test(line));
    // After its commented default, which `init` writes; else at the end.
    if (comment >= 0) return lines.toSpliced(comment + 1, 0, entry).join('\n');
  }
  if (!isMap(map) || !map.flow) return `${ended}${entry}\n`;
  const before = text.slice(0, (map.range?.[1] ?? 0) - 1).trimEnd();
  const comma = before.endsWith('{') || before.endsWith(',') ? '' : ',';
  return `${before}${comma} ${entry}${map.items.length === 0 ? ' ' : ''}${text.slice(before.length)}`;
}

/** Inserts after its commented default, else as the first of its group, with the group's indent. */
function insertedInGroup(text: string, pair: Pair, key: string, entry: string): string {
  const lines = text.split('\n');
  const lineOf = (at: Pair) => text.slice(0, startOf(at)).split('\n').length - 1;
  const from = lineOf(pair) + 1;
  const first = isMap(pair.value) ? pair.value.items[0] : undefined;
  const firstLine = first && lineOf(first) >= from ? lines[lineOf(first)] : undefined;
  const indent = /^ */.exec(firstLine ?? '  ')?.[0] ?? '';
  // The group ends at the next line that is not indented.
  const next = lines.findIndex((line, i) => i >= from && /^\S/.test(line) && !line.startsWith('#'));
  const within = lines.slice(from, next < 0 ? undefined : next);
  const comment = within.findIndex((line) => new RegExp(`^ +# *${key}:`).test(line));
  return lines.toSpliced(from + comment + 1, 0, `${indent}${entry}`).join('\n');
}
