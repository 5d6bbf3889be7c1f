/**
 * Checks all lines of a batch before one runs, as OpenAI's API does: a batch with a line that cannot be used fails, and says which lines
 * and why.
 */
import { badRequest } from '../../contract/errors.ts';
import { LIMITS } from '../../contract/limits.ts';
import { PIECE_BYTES } from '../../contract/pieces.ts';
import { keysOf } from '../request.ts';
import type { JobDeps, PlanMessage } from '../store.ts';
import type { EndpointName } from './batch.ts';
import { type LineProblem, type Problem, problem, readLine } from './lines.ts';

/** As OpenAI's API has it. */
const MOST_REQUESTS = 50_000;
/** Problems that the batch shows; a file of something else has one in each line. */
const MOST_PROBLEMS = 100;
const LINE_FEED = 0x0a;
const BYTE_ORDER_MARK = Buffer.from([0xef, 0xbb, 0xbf]);

/**
 * Notes how many requests there are, or what is wrong with them.
 * @throws bad_request for lines that cannot be used
 */
export async function checkLines(
  { id, file }: PlanMessage,
  endpoint: EndpointName,
  { job, store, now }: JobDeps,
  isOver: () => boolean,
): Promise<void> {
  const keys = keysOf(job, id);
  if ((await store.text(keys.checked)) !== undefined) return;
  const check = new Check(endpoint);
  let left = Buffer.alloc(0);
  for (let at = 0; at < file.bytes && !check.isFull; at += PIECE_BYTES) {
    if (isOver()) throw badRequest('the file is too large to be checked in the time of one function');
    const read = await store.read(file, at, Math.min(file.bytes, at + PIECE_BYTES));
    left = check.lines(left.length === 0 ? Buffer.from(read) : Buffer.concat([left, read]), at === 0);
  }
  check.line(left);
  const problems = check.end();
  if (problems.length > 0) {
    await store.put(keys.problems, JSON.stringify(problems));
    throw badRequest(`${problems.length} lines of the input cannot be used; ${problems[0]?.message}`);
  }
  await store.put(keys.checked, JSON.stringify({ atMs: now(), requests: check.requests }));
}

class Check {
  requests = 0;
  readonly #endpoint: EndpointName;
  readonly #problems: LineProblem[] = [];
  readonly #ids = new Set<string>();
  #line = 0;

  constructor(endpoint: EndpointName) {
    this.#endpoint = endpoint;
  }

  /** True when the other lines need not be looked at. */
  get isFull(): boolean {
    return this.#problems.length >= MOST_PROBLEMS || this.requests > MOST_REQUESTS;
  }

  /** @returns the beginning of a line that goes on behind these bytes */
  lines(bytes: Buffer, isFirst: boolean): Buffer<ArrayBuffer> {
    let from = isFirst && BYTE_ORDER_MARK.equals(bytes.subarray(0, 3)) ? 3 : 0;
    for (let end = bytes.indexOf(LINE_FEED, from); end !== -1; end = bytes.indexOf(LINE_FEED, from)) {
      this.line(bytes.subarray(from, end));
      from = end + 1;
      if (this.isFull) return Buffer.alloc(0);
    }
    if (bytes.length - from <= LIMITS.payloadBytes) return Buffer.from(bytes.subarray(from));
    this.#refuse(
      problem('invalid_json_line', `This line has more than ${LIMITS.payloadBytes} bytes.`, null),
      this.#line + 1,
    );
    // No line after it has a number.
    this.requests = MOST_REQUESTS + 1;
    return Buffer.alloc(0);
  }

  line(bytes: Uint8Array): void {
    if (this.isFull) return;
    this.#line++;
    if (bytes.every((byte) => byte === 0x20 || byte === 0x09 || byte === 0x0d)) return;
    this.requests++;
    if (this.requests > MOST_REQUESTS) {
      const message = `The batch has more than ${MOST_REQUESTS} requests; \`cluster-serving job run\` answers files of any length.`;
      return this.#refuse(problem('too_many_tasks', message, null), this.#line);
    }
    const read = readLine(bytes, this.#endpoint);
    if ('code' in read) return this.#refuse(read, this.#line);
    if (this.#ids.size === this.#ids.add(read.customId).size) {
      const message =
        'The custom_id for this request is a duplicate of another request. The custom_id parameter must be unique for each request in a batch.';
      this.#refuse(problem('duplicate_custom_id', message, 'custom_id'), this.#line);
    }
  }

  end(): readonly LineProblem[] {
    if (this.requests === 0)
      this.#refuse(problem('empty_file', 'The input file has no requests.', null), null);
    return this.#problems;
  }

  #refuse(found: Problem, line: number | null): void {
    this.#problems.push({ ...found, line });
  }
}
