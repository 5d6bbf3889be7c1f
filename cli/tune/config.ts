/**
 * In: the text of a config.yaml and settings by path. Out: the text with those settings, and nothing else changed.
 * Trap: a setting may stand under an old key, in another spelling, or nowhere; comments and order are the user's. So
 * values are replaced where they stand, and the result is read again: if it does not say what was wanted, and only that,
 * nothing is written.
 */
import { isMap, isScalar, type Pair, parseDocument, type YAMLMap } from 'yaml';
import { readConfigText } from '../../lib/config/file.ts';
import type { JobConfig } from '../../lib/config/job.ts';
import { LEGACY } from '../../lib/config/legacy.ts';
import { plainWord } from '../../lib/config/suggest.ts';
import { ServingError } from '../../lib/contract/errors.ts';
import type { ConfigChange } from './recommend.ts';

/**
 * @param name what errors call the text
 * @throws bad_config when the text is no config, or cannot be changed without harm; the message has the lines to write
 */
export function changedConfig(text: string, change: ConfigChange, name: string): string {
  const { job } = readConfigText(text, name);
  const wanted = jobWith(job, change);
  // Lines of Windows stay such.
  const isCrlf = /\r\n/.test(text) && !/(?<!\r)\n/.test(text);
  let edited = isCrlf ? text.replaceAll('\r\n', '\n') : text;
  for (const [path, value] of Object.entries(change)) {
    if (settingOf(job, path) !== value) edited = withSetting(edited, path, value);
  }
  if (isCrlf) edited = edited.replaceAll('\n', '\r\n');
  let read: string | undefined;
  try {
    read = JSON.stringify(readConfigText(edited, name).job);
  } catch {
    // Told below.
  }
  if (read === JSON.stringify(wanted)) return edited;
  throw new ServingError(
    'bad_config',
    `${name}: its keys cannot be changed one by one (anchors, perhaps); write by hand:\n${linesOf(change)}`,
  );
}

/** The lines of a config.yaml that say this. */
export function linesOf(change: ConfigChange): string {
  const groups = new Map<string, string[]>();
  for (const [path, value] of Object.entries(change)) {
    const [group, key] = path.includes('.') ? (path.split('.') as [string, string]) : ['', path];
    groups.set(group, [...(groups.get(group) ?? []), `${group === '' ? '' : '  '}${key}: ${value}`]);
  }
  return [...groups].flatMap(([group, lines]) => (group === '' ? lines : [`${group}:`, ...lines])).join('\n');
}

/** Lines that went and came, with what stays around them left out. */
export function diffOf(before: string, after: string): string[] {
  const [old, now] = [before.split('\n'), after.split('\n')];
  let start = 0;
  while (start < old.length && start < now.length && old[start] === now[start]) start++;
  let end = 0;
  while (end < Math.min(old.length, now.length) - start && old.at(-1 - end) === now.at(-1 - end)) end++;
  return commonLines(old.slice(start, old.length - end), now.slice(start, now.length - end));
}

/** By the longest lines in common: both parts are a few hundred lines at most. */
function commonLines(old: readonly string[], now: readonly string[]): string[] {
  const lengths = Array.from({ length: old.length + 1 }, () => new Uint16Array(now.length + 1));
  const at = (i: number, j: number) => lengths[i]?.[j] ?? 0;
  for (let i = old.length - 1; i >= 0; i--) {
    for (let j = now.length - 1; j >= 0; j--) {
      const row = lengths[i] as Uint16Array;
      row[j] = old[i] === now[j] ? at(i + 1, j + 1) + 1 : Math.max(at(i + 1, j), at(i, j + 1));
    }
  }
  const lines: string[] = [];
  for (let i = 0, j = 0; i < old.length || j < now.length; ) {
    if (i < old.length && j < now.length && old[i] === now[j]) {
      i++;
      j++;
    } else if (i < old.length && (j === now.length || at(i + 1, j) >= at(i, j + 1)))
      lines.push(`- ${old[i++]}`);
    else lines.push(`+ ${now[j++]}`);
  }
  return lines;
}

function settingOf(job: JobConfig, path: string): unknown {
  return path.split('.').reduce<unknown>((value, key) => (value as Record<string, unknown>)[key], job);
}

function jobWith(job: JobConfig, change: ConfigChange): JobConfig {
  const copy = structuredClone(job) as unknown as Record<string, unknown>;
  for (const [path, value] of Object.entries(change)) {
    const keys = path.split('.');
    const last = keys.pop() as string;
    const parent = keys.reduce((at, key) => at[key] as Record<string, unknown>, copy);
    parent[last] = value;
  }
  return copy as unknown as JobConfig;
}

/** Keys that set this setting as a plain number, ours first: `batchSize`, `params.core_number`. */
function namesFor(path: string): string[] {
  const old = [...LEGACY].filter(
    ([, rule]) => rule.outcome === 'works' && !rule.convert && rule.sets === path,
  );
  return [path, ...old.map(([name]) => name).filter((name) => name !== path)];
}

function withSetting(text: string, path: string, value: number): string {
  const root = rootOf(text);
  let edited = text;
  let found = false;
  // Two old keys may say the same; from the end, so that what stands before keeps its place.
  const places = root ? namesFor(path).flatMap((name) => pairOf(root, name) ?? []) : [];
  for (const pair of places.toSorted((a, b) => startOf(b) - startOf(a))) {
    edited = withValue(edited, pair, value);
    found = true;
  }
  return found ? edited : withNewKey(edited, root, path, value);
}

function rootOf(text: string): YAMLMap | undefined {
  const { contents } = parseDocument(text, {
    schema: 'failsafe',
    resolveKnownTags: false,
    uniqueKeys: false,
  });
  return isMap(contents) ? contents : undefined;
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
  // `batchSize:` with nothing behind it: right after the colon.
  const keyEnd = isScalar(key) ? (key.range?.[1] ?? 0) : 0;
  const colon = text.indexOf(':', keyEnd);
  return colon < 0 ? text : `${text.slice(0, colon + 1)} ${number}${text.slice(colon + 1)}`;
}

function withNewKey(text: string, root: YAMLMap | undefined, path: string, value: number): string {
  const [group, key] = path.includes('.') ? (path.split('.') as [string, string]) : [undefined, path];
  const pair = group === undefined || !root ? undefined : pairIn(root, group);
  if (group === undefined) return insertedAtTop(text, root, `${key}: ${value}`, key);
  if (!pair) return `${ended(text)}${group}:\n  ${key}: ${value}\n`;
  const map = pair.value;
  if (isMap(map) && map.flow) return insertedInFlow(text, map, `${key}: ${value}`);
  return insertedInGroup(text, pair, key, value);
}

function ended(text: string): string {
  return text === '' || text.endsWith('\n') ? text : `${text}\n`;
}

/** Behind its own commented default, which `init` writes; else at the end. */
function insertedAtTop(text: string, root: YAMLMap | undefined, line: string, key: string): string {
  const lines = ended(text).split('\n');
  const comment = lines.findIndex((each) => new RegExp(`^# *${key}:`).test(each));
  if (comment >= 0) return lines.toSpliced(comment + 1, 0, line).join('\n');
  if (root?.flow) return insertedInFlow(text, root, line);
  return `${ended(text)}${line}\n`;
}

function insertedInFlow(text: string, map: YAMLMap, entry: string): string {
  const end = (map.range?.[1] ?? 0) - 1;
  const before = text.slice(0, end).trimEnd();
  const comma = before.endsWith('{') || before.endsWith(',') ? '' : ',';
  return `${before}${comma} ${entry}${map.items.length === 0 ? ' ' : ''}${text.slice(before.length)}`;
}

/** Behind its commented default, else as the first of its group; with the indent that the group has. */
function insertedInGroup(text: string, pair: Pair, key: string, value: number): string {
  const lines = text.split('\n');
  const groupLine = text.slice(0, startOf(pair)).split('\n').length - 1;
  const first = isMap(pair.value) ? pair.value.items[0] : undefined;
  const firstLine = first ? text.slice(0, startOf(first)).split('\n').length - 1 : -1;
  const indent = firstLine > groupLine ? (/^ */.exec(lines[firstLine] ?? '')?.[0] ?? '  ') : '  ';
  // The group ends where something begins that is not indented.
  const next = lines.findIndex((line, i) => i > groupLine && /^\S/.test(line) && !line.startsWith('#'));
  const within = lines.slice(groupLine + 1, next < 0 ? undefined : next);
  const comment = within.findIndex((line) => new RegExp(`^ +# *${key}:`).test(line));
  const at = groupLine + 1 + (comment < 0 ? 0 : comment + 1);
  return lines.toSpliced(at, 0, `${indent}${key}: ${value}`).join('\n');
}
