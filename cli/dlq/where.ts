/**
 * In: `code=out_of_tries`, `uri=day1/*`, `since=2h`. Out: which parked messages are meant.
 * Trap: a condition that is misread deletes the wrong messages: every word of it is checked. What the listing alone
 * tells (time) is asked first, then what needs the message (uri), then what needs Redis (code).
 */
import type { ResultHandover, StoredOutcome } from '../../lib/redis/replace-result.ts';
import type { ParkedEntry, ParkedHead } from '../../lib/s3/dead-letters.ts';
import { wrongUse } from '../command.ts';

export const WHERE_HELP = `\
      --where <field=value>   only these; several must all hold, and may stand without --where:
                                code=out_of_tries   code of the stored failure (none: nothing is stored); needs Redis
                                uri=day1/*          its uri, or how it begins; uri=none: without one
                                since=2026-11-21, until=36h   parked not before, before: a time, or so long ago`;

export interface Where {
  /** By the listing alone. */
  readonly entry: (entry: ParkedEntry) => boolean;
  /** Undefined when no uri is asked for. */
  readonly uri: ((uri: string | undefined) => boolean) | undefined;
  readonly code: string | undefined;
}

interface Conditions {
  uri?: string;
  code?: string;
  since?: number;
  until?: number;
}

const UNITS: Readonly<Record<string, number>> = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };
const DATE = /^\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:\d\d)?)?$/;

/**
 * @param now ms since 1970
 * @param ids only these, when there are any
 * @throws bad_config naming the condition
 */
export function parseWhere(texts: readonly string[], now: number, ids: readonly string[] = []): Where {
  const only = new Set(ids);
  const given: Conditions = {};
  for (const text of texts) {
    const at = text.indexOf('=');
    const field = text.slice(0, Math.max(at, 0));
    const value = text.slice(at + 1);
    if (field !== 'uri' && field !== 'code' && field !== 'since' && field !== 'until') {
      const expected = 'expected code=..., uri=..., since=... or until=...';
      throw wrongUse(`--where ${JSON.stringify(text)}: ${expected}`);
    }
    if (value === '') throw wrongUse(`--where ${JSON.stringify(text)}: ${field}= needs a value`);
    if (given[field] !== undefined) throw wrongUse(`--where: ${field} is given twice`);
    if (field === 'uri' || field === 'code') given[field] = value;
    else given[field] = timeOf(text, value, now);
  }
  const { uri, code, since = Number.NEGATIVE_INFINITY, until = Number.POSITIVE_INFINITY } = given;
  return {
    entry: ({ id, parkedAt }) => (only.size === 0 || only.has(id)) && parkedAt >= since && parkedAt < until,
    uri: uri === undefined ? undefined : (found) => matches(uri, found),
    code,
  };
}

function matches(pattern: string, uri: string | undefined): boolean {
  if (pattern === 'none') return uri === undefined;
  if (uri === undefined) return false;
  return pattern.endsWith('*') ? uri.startsWith(pattern.slice(0, -1)) : uri === pattern;
}

function timeOf(text: string, value: string, now: number): number {
  const ago = /^(\d{1,6})([smhd])$/.exec(value);
  if (ago) return now - Number(ago[1]) * (UNITS[ago[2] as string] as number);
  const time = DATE.test(value) ? Date.parse(value.replace(' ', 'T')) : Number.NaN;
  if (Number.isFinite(time)) return time;
  throw wrongUse(
    `--where ${JSON.stringify(text)}: expected a time (2026-11-21, 2026-11-21T08:00Z) or so long ago (90m, 36h, 7d)`,
  );
}

/** Arguments and --where: conditions have an equals sign, ids have none. */
export function splitArguments(args: readonly string[], where: readonly string[] = []) {
  return {
    ids: args.filter((arg) => !arg.includes('=')),
    conditions: [...where, ...args.filter((arg) => arg.includes('='))],
  };
}

export interface Found extends ParkedHead {
  /** Undefined when nothing is stored, or Redis was not asked. */
  readonly outcome: StoredOutcome | undefined;
}

export interface Source {
  readonly parked: {
    pages(after?: string): AsyncIterable<readonly ParkedEntry[]>;
    heads(entries: readonly ParkedEntry[]): Promise<(ParkedHead | undefined)[]>;
  };
  readonly results: Pick<ResultHandover, 'outcomes'> | undefined;
}

/** Read and told together. */
const PART = 100;

export interface FindOptions {
  readonly after?: string | undefined;
}

/** In the order of ids, part by part. @throws bad_config when a code is asked for and no Redis is known */
export async function* findParked(
  { parked, results }: Source,
  where: Where,
  { after }: FindOptions = {},
): AsyncGenerator<readonly Found[]> {
  assertRedis(where, results);
  for await (const page of parked.pages(after)) {
    const entries = page.filter(where.entry);
    for (let i = 0; i < entries.length; i += PART) {
      const heads = (await parked.heads(entries.slice(i, i + PART))).filter((head) => head !== undefined);
      const meant = heads.filter(({ uri }) => where.uri?.(uri) ?? true);
      const found = await withOutcomes(meant, results);
      yield found.filter(
        ({ outcome }) =>
          where.code === undefined || (outcome?.code ?? outcome?.status ?? 'none') === where.code,
      );
    }
  }
}

/** The same without what they are: a message is not read where the listing alone decides. */
export async function* findEntries(source: Source, where: Where): AsyncGenerator<readonly ParkedEntry[]> {
  if (where.uri !== undefined || where.code !== undefined) return yield* findParked(source, where);
  for await (const page of source.parked.pages()) {
    const entries = page.filter(where.entry);
    for (let i = 0; i < entries.length; i += PART) yield entries.slice(i, i + PART);
  }
}

export function assertRedis(where: Where, results: Source['results']): void {
  if (where.code === undefined || results) return;
  throw wrongUse('code= is the code of the stored failure; say where it is stored with --redis-url');
}

async function withOutcomes(heads: readonly ParkedHead[], results: Source['results']): Promise<Found[]> {
  const uris = heads.map(({ uri }) => uri).filter((uri) => uri !== undefined);
  const outcomes = results && uris.length > 0 ? await results.outcomes(uris) : [];
  const byUri = new Map(uris.map((uri, i) => [uri, outcomes[i]]));
  return heads.map((head) => ({
    ...head,
    outcome: head.uri === undefined ? undefined : byUri.get(head.uri),
  }));
}
