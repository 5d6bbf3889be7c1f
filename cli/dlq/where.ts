/**
 * Finds the dead letters that match conditions such as `code=max_receives_exceeded`, `uri=day1/*` or `since=2h`. The
 * listing alone gives the time, so it is checked first; then the uri, which needs the message; then the code, which
 * needs Redis.
 */

import { errorCodeOf } from '../../lib/contract/errors.ts';
import { present } from '../../lib/contract/present.ts';
import type { Replacer, StoredOutcome } from '../../lib/results/store.ts';
import type { DeadLetterEntry, DeadLetterHead, DeadLetters } from '../../lib/s3/dead-letters.ts';
import { wrongUse } from '../command.ts';

export interface Where {
  /** Matches by the listing alone. */
  readonly entry: (entry: DeadLetterEntry) => boolean;
  /** Undefined without a condition on the uri. */
  readonly uri: ((uri: string | undefined) => boolean) | undefined;
  readonly code: string | undefined;
}

const UNITS: Readonly<Record<string, number>> = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };
const DATE = /^\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:\d\d)?)?$/;

/**
 * @param now ms since 1970
 * @param ids selects only these, if any
 * @throws bad_config naming the condition
 */
export function parseWhere(texts: readonly string[], now: number, ids: readonly string[] = []): Where {
  const only = new Set(ids);
  const given = new Map<string, string>();
  const times = new Map<string, number>();
  for (const text of texts) {
    const [, field = '', value = ''] = /^(uri|code|since|until)=(.*)$/s.exec(text) ?? [];
    const shown = JSON.stringify(text);
    if (field === '') throw wrongUse(`--where ${shown}: expected code=..., uri=..., since=... or until=...`);
    if (value === '') throw wrongUse(`--where ${shown}: ${field}= needs a value`);
    if (given.has(field)) throw wrongUse(`--where: ${field} is given twice`);
    given.set(field, value);
    if (field === 'since' || field === 'until') times.set(field, timeOf(text, value, now));
  }
  const { since = Number.NEGATIVE_INFINITY, until = Number.POSITIVE_INFINITY } = Object.fromEntries(times);
  const uri = given.get('uri');
  const code = given.get('code');
  return {
    entry: ({ id, archivedAt }) =>
      (only.size === 0 || only.has(id)) && archivedAt >= since && archivedAt < until,
    uri: uri === undefined ? undefined : (found) => matches(uri, found),
    code: errorCodeOf(code) ?? code,
  };
}

function matches(pattern: string, uri: string | undefined): boolean {
  if (pattern === 'none') return uri === undefined;
  if (uri === undefined) return false;
  return pattern.endsWith('*') ? uri.startsWith(pattern.slice(0, -1)) : uri === pattern;
}

function timeOf(text: string, value: string, now: number): number {
  const [, count, unit = ''] = /^(\d{1,6})([smhd])$/.exec(value) ?? [];
  if (count) return now - Number(count) * present(UNITS[unit], `unit ${unit}`);
  const time = DATE.test(value) ? Date.parse(value.replace(' ', 'T')) : Number.NaN;
  if (Number.isFinite(time)) return time;
  throw wrongUse(
    `--where ${JSON.stringify(text)}: expected a time (2026-11-21, 2026-11-21T08:00Z) or so long ago (90m, 36h, 7d)`,
  );
}

export interface Found extends DeadLetterHead {
  /** Undefined when nothing is stored, or Redis was not asked. */
  readonly outcome: StoredOutcome | undefined;
}

export interface Source {
  readonly deadLetters: Pick<DeadLetters, 'pages' | 'heads'>;
  readonly results: Pick<Replacer, 'outcomes'> | undefined;
}

/** How many are read and yielded together. */
const PART = 100;

/** Yields in the order of ids. @throws bad_config for a condition on the code without a Redis */
export async function* findDeadLetters({ deadLetters, results }: Source, where: Where, after?: string) {
  assertRedis(where, results);
  for await (const page of deadLetters.pages(after)) {
    const entries = page.filter(where.entry);
    for (let i = 0; i < entries.length; i += PART) {
      const heads = await deadLetters.heads(entries.slice(i, i + PART));
      const meant = heads.filter((head) => head !== undefined && (where.uri?.(head.uri) ?? true));
      const found = await withOutcomes(meant as DeadLetterHead[], results);
      const codeOf = ({ outcome }: Found) => outcome?.code ?? outcome?.status ?? 'none';
      yield found.filter((one) => where.code === undefined || codeOf(one) === where.code);
    }
  }
}

/** Like findDeadLetters but without the content: a message is not read if the listing decides. */
export async function* findEntries(source: Source, where: Where): AsyncGenerator<readonly DeadLetterEntry[]> {
  if (where.uri !== undefined || where.code !== undefined) return yield* findDeadLetters(source, where);
  for await (const page of source.deadLetters.pages()) {
    const entries = page.filter(where.entry);
    for (let i = 0; i < entries.length; i += PART) yield entries.slice(i, i + PART);
  }
}

export function assertRedis(where: Where, results: Source['results']): void {
  if (where.code === undefined || results) return;
  throw wrongUse('code= matches the stored failure; pass --redis-url to say where results are stored');
}

async function withOutcomes(heads: readonly DeadLetterHead[], results: Source['results']): Promise<Found[]> {
  const uris = heads.flatMap(({ uri }) => uri ?? []);
  const outcomes = results && uris.length > 0 ? await results.outcomes(uris) : [];
  const byUri = new Map(uris.map((uri, i) => [uri, outcomes[i]]));
  return heads.map((head) => ({ ...head, outcome: byUri.get(head.uri ?? '') }));
}
