/**
 * Assigns the keys of a config file to settings, and reports old keys and wrong ones. A key has several spellings
 * (`threadPerModel`, `thread_per_model`), and several keys may set one setting (`jobName`, `model.name`); the same key
 * twice is an error, and so are two keys that disagree.
 */
import { ServingError } from '../contract/errors.ts';
import { plainWord, suggest } from '../contract/suggest.ts';
import { LEGACY, type LegacyKey, SERVABLES, SERVABLES_REFUSED } from './legacy.ts';
import {
  blankHint,
  booleanOf,
  type Field,
  type Fields,
  isFields,
  kindOf,
  shown,
  shownKey,
  type Value,
} from './value.ts';

export interface Setting {
  readonly value: Value;
  /** The key as the user wrote it. */
  readonly key: string;
  readonly line: number;
}

export interface Problem {
  readonly line: number;
  readonly text: string;
}

interface GatheredSettings {
  /** By our path, e.g. `queue.batchSize`. */
  readonly settings: ReadonlyMap<string, Setting>;
  readonly notes: readonly string[];
  readonly problems: readonly Problem[];
}

/** Groups that may be one word instead of keys, and the key that the word sets: `image: torch`. */
const WORD_KEYS: ReadonlyMap<string, string> = new Map([['image', 'preset']]);

/** Limits the problems shown; hints for thousands would take seconds. */
export const MAX_PROBLEMS = 50;

interface Entry extends Setting {
  /** The key in the spelling of our documents: `params.batch_size`. */
  readonly name: string;
}

interface KnownKeys {
  /** Current names first, because they are preferred as suggestions. */
  readonly names: readonly string[];
  readonly own: ReadonlySet<string>;
  /** By their plain spelling. */
  readonly byWord: ReadonlyMap<string, string>;
  readonly groups: ReadonlyMap<string, string>;
}

/** @param ownPaths our settings. Never throws. */
export function gatherSettings(root: Fields, ownPaths: readonly string[]): GatheredSettings {
  const problems: Problem[] = [];
  const entries = entriesOf(root, knownKeys(ownPaths), problems);
  const settings = new Map<string, Setting>();
  const notes = new Map<string, Entry[]>();
  const note = (text: string, entry: Entry) => notes.set(text, [...(notes.get(text) ?? []), entry]);
  for (const entry of entries.values()) {
    const rule = LEGACY.get(entry.name);
    if (entry.value === null) continue;
    if (rule?.outcome === 'replaced') note(rule.text, entry);
    else if (rule?.outcome === 'refused') problems.push(...refusal(rule, entry));
    else {
      const pairs = converted(entry, rule, entries, problems);
      if (pairs?.length === 0 && rule && entry.value !== '') note(rule.text, entry);
      for (const [path, value] of pairs ?? []) set(path, { ...entry, value }, settings, problems);
    }
  }
  const texts = [...notes].map(([text, about]) => noteText(text, about));
  return { settings, notes: [...texts, ...topOneNote(entries, settings)], problems };
}

function set(path: string, setting: Setting, settings: Map<string, Setting>, problems: Problem[]): void {
  const { key, line, value } = setting;
  const other = settings.get(path);
  if (other === undefined) settings.set(path, { key, line, value });
  else if (JSON.stringify(other.value) !== JSON.stringify(value)) {
    problems.push({ line, text: `${key}: sets the same as ${other.key} on line ${other.line}; keep one` });
  }
}

/** The setting of an entry; undefined after a problem. */
function converted(
  entry: Entry,
  rule: LegacyKey | undefined,
  entries: ReadonlyMap<string, Entry>,
  problems: Problem[],
): ReturnType<NonNullable<Extract<LegacyKey, { outcome: 'works' }>['convert']>> | undefined {
  if (rule?.outcome !== 'works') return [[entry.name, entry.value]];
  if (!rule.convert) return [[rule.sets, entry.value]];
  try {
    return rule.convert(entry.value, (oldKey) => entries.get(oldKey)?.value ?? undefined);
  } catch (error) {
    problems.push({ line: entry.line, text: `${entry.key}: ${ServingError.from(error).message}` });
  }
}

function refusal({ text }: LegacyKey, { key, line, value }: Entry): Problem[] {
  const flag = booleanOf(value);
  if (flag === false) return [];
  if (flag === true) return [{ line, text: `${key}: ${text}` }];
  return [{ line, text: `${key}: expected true or false, got ${shown(value)}` }];
}

function noteText(text: string, about: readonly Entry[]): string {
  const lines = about.map(({ line }) => line).join(', ');
  return `${about.map(({ key }) => key).join(', ')} (line${about.length > 1 ? 's' : ''} ${lines}): ${text}`;
}

/** 0.7 and 0.8 returned the best class by default. Only their files have a group `spark`. */
function topOneNote(entries: ReadonlyMap<string, Entry>, settings: ReadonlyMap<string, Setting>): string[] {
  const isOldest = [...entries.keys()].some((name) => name.startsWith('spark.'));
  if (!isOldest || settings.has('postProcessing')) return [];
  return [
    'no filter: 0.7 and 0.8 answered with topN(1) then, here the whole output comes back; ' +
      '`postProcessing: topN(1)` keeps the old answer',
  ];
}

function firstPart(path: string): string {
  const [first = path] = path.split('.', 1);
  return first;
}

function knownKeys(ownPaths: readonly string[]): KnownKeys {
  const names = [...new Set([...ownPaths, ...LEGACY.keys()])];
  const groups = names.filter((name) => name.includes('.')).map(firstPart);
  return {
    names,
    own: new Set(ownPaths),
    byWord: new Map(names.map((name) => [plainWord(name), name])),
    groups: new Map(groups.map((group) => [plainWord(group), group])),
  };
}

/** Every known key of the file, by name, groups opened. */
function entriesOf(root: Fields, known: KnownKeys, problems: Problem[]): Map<string, Entry> {
  const entries = new Map<string, Entry>();
  const openedGroups = new Map<string, Field>();
  const add = ({ key, line, value }: Field, group?: Field) => {
    const written = group ? `${group.key}.${key}` : key;
    const name = key.includes('.') ? undefined : known.byWord.get(plainWord(written));
    if (name === undefined) {
      const hinted = problems.length < MAX_PROBLEMS ? hint(key, group?.key, known) : '';
      problems.push({ line, text: `${shownKey(written)}: unknown key${hinted}` });
      return;
    }
    const first = entries.get(name);
    if (first === undefined) entries.set(name, { name, key: shownKey(written), line, value });
    else problems.push(repeated(written, line, first));
  };
  for (const field of root.fields) {
    const group = known.groups.get(plainWord(field.key));
    const first = group === undefined ? undefined : openedGroups.get(group);
    if (group === undefined) add(field);
    else if (first) problems.push(repeated(field.key, field.line, first));
    else {
      openedGroups.set(group, field);
      for (const inner of fieldsOf(field, group, known, problems)) add(inner, field);
    }
  }
  return entries;
}

function repeated(
  key: string,
  line: number,
  first: { readonly key: string; readonly line: number },
): Problem {
  const text = `${shownKey(key)}: the same key as ${shownKey(first.key)} on line ${first.line}; keep one`;
  return { line, text };
}

/** The fields of a group. */
function fieldsOf(
  { key, line, value }: Field,
  group: string,
  known: KnownKeys,
  problems: Problem[],
): readonly Field[] {
  if (value === null) return [];
  const isList = group === SERVABLES && Array.isArray(value);
  const inner = isList && value.length === 1 ? value[0] : value;
  if (isFields(inner)) return inner.fields;
  const wordKey = WORD_KEYS.get(group);
  const unspaced = typeof inner === 'string' ? blankHint(inner) : '';
  if (wordKey !== undefined && typeof inner === 'string' && !unspaced)
    return [{ key: wordKey, line, value: inner }];
  const keys = namesIn(group, known.names).join(', ');
  const text =
    isList && value.length > 1
      ? `${value.length} models: ${SERVABLES_REFUSED}`
      : `expected ${wordKey === undefined ? '' : `a ${wordKey} or `}keys under it (${keys}), got ${kindOf(inner)}${unspaced}`;
  problems.push({ line, text: `${key}: ${text}` });
  return [];
}

/** Suggests a key for an unknown one. */
function hint(key: string, groupKey: string | undefined, known: KnownKeys): string {
  const group = groupKey === undefined ? undefined : known.groups.get(plainWord(groupKey));
  const dotted = known.byWord.get(plainWord(key));
  if (key.includes('.') && dotted !== undefined) {
    const [outer, inner] = dotted.split('.');
    return `; write ${inner} on a line of its own under ${outer}:`;
  }
  const unspaced = blankHint(key);
  if (unspaced !== '') return unspaced;
  const name = elsewhere(key, known);
  if (name !== undefined) return `; did you mean ${currentName(name)}?${nestedForm(name)}`;
  const near = suggest(key, namesIn(group, known.names));
  if (near !== undefined) return `; did you mean ${group === undefined ? near : `${group}.${near}`}?`;
  return `; known are ${namesIn(group, group === undefined ? [...known.own] : known.names).join(', ')}`;
}

/** Finds a key of this name in another group or at the top. */
function elsewhere(key: string, known: KnownKeys): string | undefined {
  const word = plainWord(key);
  return known.names.find((candidate) => plainWord(candidate.slice(candidate.lastIndexOf('.') + 1)) === word);
}

function currentName(name: string): string {
  const rule = LEGACY.get(name);
  return rule?.outcome === 'works' && !rule.convert ? rule.sets : name;
}

/** How to write a key that stands in a group. */
function nestedForm(name: string): string {
  const [group, key] = name.split('.');
  return key === undefined ? '' : ` The nested form is "${group}: {${key}: …}"`;
}

/** The last words of the names in a group; at the top, the first words. */
function namesIn(group: string | undefined, names: readonly string[]): string[] {
  if (group === undefined) return [...new Set(names.map(firstPart))];
  return names.filter((name) => name.startsWith(`${group}.`)).map((name) => name.slice(group.length + 1));
}
