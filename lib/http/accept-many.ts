/**
 * POST /predictions with a record on each line: JSON texts (NDJSON), or the rows of a table as CSV. Each record is accepted or
 * refused by itself; the answer has an entry for each, in the order of the body. Loaded at its first request.
 */

import { type Csv, inputsOfRow, readCsv } from '../codecs/csv.ts';
import { MOST_DEPTH } from '../codecs/json.ts';
import { isIntricate, JsonStructure, SMALL_CHARACTERS } from '../codecs/json-structure.ts';
import { badRequest, ServingError, withUri } from '../contract/errors.ts';
import { LIMITS, overLimit } from '../contract/limits.ts';
import { assertUri } from '../contract/names.ts';
import type { Inputs } from '../contract/values.ts';
import type { NamedRequest, SentRecord } from '../pipeline/submit.ts';
import type { Submission } from './predictions.ts';
import type { HttpRequest } from './request.ts';
import type { HttpResponse } from './response.ts';

/**
 * Dependencies that a single record needs too. They are passed instead of imported, because the bundler puts shared
 * code into a file that functions would read at each start.
 */
export interface AcceptTools {
  /** @throws bad_request for another number of instances than one */
  readonly readSubmission: (body: Uint8Array) => {
    readonly submission: Submission;
    readonly ignored: readonly string[];
  };
  readonly instanceSubmission: (uri: string | undefined, instance: Inputs) => Submission;
  /** @param submissions undefined for a record that is refused */
  readonly namedRequest: (submissions: readonly (Submission | undefined)[]) => NamedRequest | undefined;
  /** @throws bad_request where the request's key is none */
  readonly identified: (
    submission: Submission,
    request: NamedRequest | undefined,
    place: number,
  ) => SentRecord;
  readonly send: (record: SentRecord) => Promise<void>;
  readonly locationOf: (uri: string) => string;
  readonly logError: (error: ServingError) => void;
  readonly warningOf: (ignored: readonly string[]) => Record<string, string> | undefined;
  readonly json: (status: number, body: unknown, headers?: Record<string, string>) => HttpResponse;
}

interface Line<T> {
  /** Where it ends in the body; lines count from 1. */
  readonly line: number;
  readonly is: T | ServingError;
}

const LINE_FEED = 0x0a;
/** A tab, a carriage return, a space. */
const BLANKS: ReadonlySet<number> = new Set([0x09, 0x0d, 0x20]);
const BYTE_ORDER_MARK = Buffer.from('\ufeff');
const URI = 'uri';

/** @throws bad_request, too_large, conflict for a body of which nothing was enqueued */
export async function acceptMany(
  request: HttpRequest,
  isTable: boolean,
  tools: AcceptTools,
): Promise<HttpResponse> {
  const ignored: string[] = [];
  const read = isTable
    ? rowsOf(readCsv(request.body(), 'recordsPerBody'), tools)
    : linesOf(request.body(), tools, ignored);
  const named = tools.namedRequest(read.map(({ is }) => (is instanceof ServingError ? undefined : is)));
  // All before the first is sent: a key that is none, or too long with the place of a record, refuses the body.
  const records = read.map(({ line, is }, place): Line<SentRecord> => {
    return { line, is: is instanceof ServingError ? is : tools.identified(is, named, place) };
  });
  const entries = await sendInOrder(records, tools.send);
  logCauses(entries, tools.logError);
  assertUnused(entries);
  const accepted = entries.filter(({ is }) => !(is instanceof ServingError)).length;
  const answers = entries.map(({ line, is }) => {
    if (!(is instanceof ServingError)) {
      const { uri, identity } = is;
      return { line, status: 202, uri, identity, location: tools.locationOf(uri) };
    }
    const { status, uri, publicMessage: error, code, retryable } = is;
    return { line, status, uri, error, code, retryable };
  });
  const refused = entries.length - accepted;
  const status = refused === 0 ? 202 : 207;
  return tools.json(status, { accepted, refused, records: answers }, tools.warningOf(ignored));
}

/** @throws conflict when the key of the request was used for another one, so that no record was sent */
function assertUnused(entries: readonly Line<SentRecord>[]): void {
  const conflict = entries.find(({ is }) => is instanceof ServingError && is.code === 'conflict')?.is;
  if (conflict && entries.every(({ is }) => is instanceof ServingError))
    throw new ServingError('conflict', conflict.message);
}

/** @throws bad_request for a body without a record, too_large */
function linesOf(
  body: Uint8Array | string,
  { readSubmission }: AcceptTools,
  ignored: string[],
): Line<Submission>[] {
  const bytes = bytesOf(body);
  // Brackets and quotes are the same bytes in UTF-8.
  const isLarge = bytes.length > SMALL_CHARACTERS;
  const structure =
    isLarge && isIntricate(bytes.toString('latin1'))
      ? new JsonStructure(bytes.length, 'the body is ')
      : undefined;
  const lines: Line<Submission>[] = [];
  let start = BYTE_ORDER_MARK.equals(bytes.subarray(0, BYTE_ORDER_MARK.length)) ? BYTE_ORDER_MARK.length : 0;
  for (let line = 1; start < bytes.length; line++) {
    while (BLANKS.has(bytes[start] ?? LINE_FEED)) start++;
    const end = bytes[start] === LINE_FEED ? start : endOfLine(bytes, start);
    const text = start < end && bytes.subarray(start, end);
    start = end + 1;
    if (!text) continue;
    assertRecords(lines.length + 1);
    const is = orError(() => {
      structure?.read(text.toString('latin1'), MOST_DEPTH);
      const { submission, ignored: keys } = readSubmission(text);
      for (const key of keys) if (!ignored.includes(key)) ignored.push(key);
      return submission;
    });
    lines.push({ line, is });
    // The lines share the limits of a body, so one of them over a limit refuses all.
    structure?.assertFits();
  }
  if (lines.length > 0) return lines;
  throw badRequest('the body is empty; expected a record on each line: {"uri":"…","instances":[{…}]}');
}

function bytesOf(body: Uint8Array | string): Buffer {
  return typeof body === 'string'
    ? Buffer.from(body)
    : Buffer.from(body.buffer, body.byteOffset, body.length);
}

function endOfLine(bytes: Buffer, start: number): number {
  const feed = bytes.indexOf(LINE_FEED, start);
  return feed === -1 ? bytes.length : feed;
}

/** @throws bad_request, too_large */
function rowsOf({ columns, rows }: Csv, { instanceSubmission }: AcceptTools): Line<Submission>[] {
  const at = columns.indexOf(URI);
  if (at === 0 && columns.length === 1) throw badRequest('line 1: there is no column but that of the uris');
  // No codec of a message holds more.
  const count = columns.length - (at < 0 ? 0 : 1);
  if (count > LIMITS.inputsPerRecord) throw overLimit('inputsPerRecord', `line 1: ${count} columns are`);
  const isInput = (_: string, i: number) => i !== at;
  const names = columns.filter(isInput);
  return rows.map(({ cells, line }) => {
    const record = orError(() => {
      const uri = at < 0 ? undefined : assertUri(cells[at]);
      return instanceSubmission(uri, inputsOfRow(names, cells.filter(isInput)));
    });
    return { line, is: record };
  });
}

function assertRecords(count: number): void {
  if (count > LIMITS.recordsPerBody) throw overLimit('recordsPerBody', 'the records of the body are');
}

/** The error's text says "the body" of what is one of its lines. */
function orError<T>(work: () => T): T | ServingError {
  try {
    return work();
  } catch (error) {
    const { code, message } = ServingError.from(error);
    return new ServingError(code, message.replace(/^the body\b/, 'the line'), { cause: error });
  }
}

/**
 * Keeps the order of several records under one uri: the last line counts, so it is sent after the others are queued.
 * They are sent together, because a body may have a thousand of them. If the last one cannot be sent, any of the others
 * may count.
 */
async function sendInOrder(
  records: readonly Line<SentRecord>[],
  send: AcceptTools['send'],
): Promise<Line<SentRecord>[]> {
  const last = new Map(records.map(({ is }, place) => [is.uri, place]));
  const entries = [...records];
  for (const isLast of [false, true]) {
    const sent = records.map(async ({ line, is }, place) => {
      if (is instanceof ServingError || (last.get(is.uri) === place) !== isLast) return;
      await send(is).catch((error: unknown) => {
        entries[place] = { line, is: withUri(error, is.uri) };
      });
    });
    await Promise.all(sent);
  }
  return entries;
}

/** Records that failed together have one cause, and one line in the log. */
function logCauses(entries: readonly Line<SentRecord>[], log: AcceptTools['logError']): void {
  const failures = new Map<string, ServingError>();
  for (const { is } of entries)
    if (is instanceof ServingError && is.status >= 500) failures.set(is.message, is);
  for (const error of failures.values()) log(error);
}
