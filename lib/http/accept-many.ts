/**
 * POST /predictions with a record on each line: JSON texts (NDJSON), or the rows of a table as CSV. Each record is accepted or
 * refused by itself; the answer has an entry for each, in the order of the body. Loaded at its first request.
 */
import { type Csv, readCsv } from '../codecs/csv.ts';
import { badRequest, ServingError, withUri } from '../contract/errors.ts';
import { LIMITS, overLimit } from '../contract/limits.ts';
import { assertUri } from '../contract/names.ts';
import type { Inputs, Value } from '../contract/values.ts';
import type { NamedRequest, SentRecord } from '../pipeline/submit.ts';
import type { Submission } from './predictions.ts';
import type { HttpRequest } from './request.ts';
import type { HttpResponse } from './response.ts';

/**
 * What one record needs too. It is handed over and not imported, because the bundler makes a file of what two files share,
 * which functions would read at each start.
 */
export interface AcceptTools {
  readonly readSubmissions: (body: Uint8Array) => readonly Submission[];
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
  readonly json: (status: number, body: unknown) => HttpResponse;
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
  const read = isTable ? rowsOf(readCsv(request.body()), tools) : linesOf(request.body(), tools);
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
  return tools.json(refused === 0 ? 202 : 207, { accepted, refused, records: answers });
}

/** @throws conflict when the key of the request was used for another one, so that no record was sent */
function assertUnused(entries: readonly Line<SentRecord>[]): void {
  const conflict = entries.find(({ is }) => is instanceof ServingError && is.code === 'conflict')?.is;
  if (conflict && entries.every(({ is }) => is instanceof ServingError))
    throw new ServingError('conflict', (conflict as ServingError).message);
}

/** @throws bad_request for a body without a record, too_large */
function linesOf(body: Uint8Array | string, { readSubmissions }: AcceptTools): Line<Submission>[] {
  const bytes = typeof body === 'string' ? Buffer.from(body) : body;
  const lines: Line<Submission>[] = [];
  let start = BYTE_ORDER_MARK.equals(bytes.subarray(0, BYTE_ORDER_MARK.length)) ? BYTE_ORDER_MARK.length : 0;
  for (let line = 1; start < bytes.length; line++) {
    const feed = bytes.indexOf(LINE_FEED, start);
    const end = feed === -1 ? bytes.length : feed;
    while (start < end && BLANKS.has(bytes[start] as number)) start++;
    const text = start < end && bytes.subarray(start, end);
    start = end + 1;
    if (!text) continue;
    assertRecords(lines.length + 1);
    lines.push({ line, is: orError(() => onlyRecord(readSubmissions(text))) });
  }
  if (lines.length > 0) return lines;
  throw badRequest('the body is empty; expected a record on each line: {"uri":"…","instances":[{…}]}');
}

function onlyRecord(submissions: readonly Submission[]): Submission {
  const [record] = submissions;
  if (record && submissions.length === 1) return record;
  throw badRequest(`a line holds one record, got ${submissions.length} instances`);
}

/** @throws bad_request, too_large */
function rowsOf({ columns, rows }: Csv, { instanceSubmission }: AcceptTools): Line<Submission>[] {
  assertRecords(rows.length);
  const at = columns.indexOf(URI);
  if (at === 0 && columns.length === 1) throw badRequest('line 1: there is no column but that of the uris');
  // No codec of a message holds more.
  const count = columns.length - (at < 0 ? 0 : 1);
  if (count > LIMITS.inputsPerRecord) throw overLimit('inputsPerRecord', `line 1: ${count} columns are`);
  return rows.map(({ cells, line }) => {
    const record = orError(() => {
      const uri = at < 0 ? undefined : assertUri(cells[at]);
      const inputs = new Map(
        columns.map((name, i): [string, Value] => [name, { kind: 'json', value: cells[i] }]),
      );
      if (at >= 0) inputs.delete(URI);
      return instanceSubmission(uri, inputs);
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
 * Of several records under one uri the last line counts, so it is sent when the queue has the others. Which of those came
 * first does not matter: none of them is the last.
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
