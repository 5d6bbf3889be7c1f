/**
 * `cluster-serving query`. In: uris, or --all. Out: their results, failures and what is not there yet, in order.
 * Trap: a failed record is an answer and an exit code of 1; one that is not there yet is 4, so that a script can
 * tell "wrong" from "not yet".
 */
// Not from sdk/index.ts, which would load SQS as well: 0.2 s of every call.

import { ServingError } from '../../lib/contract/errors.ts';
import { failureBody, resultText } from '../../lib/http/predictions.ts';
import type { Result } from '../../sdk/index.ts';
import { OutputQueue } from '../../sdk/output-queue.ts';
import { COMMON_HELP, defineCommand, wholeNumber, wrongUse } from '../command.ts';
import { EXIT, type Output } from '../output.ts';
import { failedLine, pendingLine, resultLines } from '../results.ts';
import { findService, JOB_HELP, JOB_OPTION, notRunning, SERVICE_HELP, SERVICE_OPTIONS } from '../service.ts';

const HELP = `Usage: cluster-serving query [options] <uri>...
       cluster-serving query [options] --all --delete

Prints the results of these uris, or takes all there are. Exit code: 1 when a record has failed, else 4 when one has
no result (yet).

      --wait <s>          wait for results that are not there yet (default 0)
      --delete            take the results away
      --all               every finished result of the job; they are taken away, so it needs --delete
${SERVICE_HELP}
      --redis-url <url>   Redis of a service elsewhere: redis://host:port
${JOB_HELP}
${COMMON_HELP}`;

/** Waits and reads under way at once. */
const IN_FLIGHT = 64;

type Answer =
  | { readonly uri: string; readonly result: Result }
  | { readonly uri: string; readonly error: ServingError }
  | { readonly uri: string };

interface Asking {
  readonly waitMs: number;
  readonly deletes: boolean;
}

export const query = defineCommand({
  name: 'query',
  help: HELP,
  options: {
    wait: { type: 'string' },
    delete: { type: 'boolean' },
    all: { type: 'boolean' },
    ...SERVICE_OPTIONS,
    'redis-url': { type: 'string' },
    ...JOB_OPTION,
  },
  takesArguments: true,
  async run({ wait, delete: deletes = false, all = false, ...values }, output, uris) {
    const waitMs = wholeNumber('--wait', wait, { otherwise: 0, most: 86_400 }) * 1000;
    if (all === uris.length > 0) throw wrongUse('query what? Give uris, or --all');
    if (all && !deletes) throw wrongUse('--all takes the results away; say so with --delete');
    const service = await findService(values);
    if (!service) return notRunning(values, output, '--url or --redis-url');
    const url = service.redisUrl ?? service.http;
    if (url === undefined)
      throw wrongUse('query needs to know where the results are: say --url or --redis-url');
    const queue = new OutputQueue({ name: service.job, url });
    try {
      return await tell(all ? queue.drain() : answers(queue, uris, { waitMs, deletes }), output);
    } finally {
      await queue.close();
    }
  },
});

/** In the order of the uris, whatever comes first. */
async function* answers(queue: OutputQueue, uris: readonly string[], asking: Asking): AsyncGenerator<Answer> {
  const endAt = performance.now() + asking.waitMs;
  const flying: Promise<Answer>[] = [];
  for (const uri of uris) {
    flying.push(answerFor(queue, uri, asking, endAt));
    // What fails is thrown when its turn comes; until then nobody listens.
    flying.at(-1)?.catch(() => undefined);
    if (flying.length === IN_FLIGHT) yield (await flying.shift()) as Answer;
  }
  for (const answer of flying) yield await answer;
}

async function answerFor(
  queue: OutputQueue,
  uri: string,
  { waitMs, deletes }: Asking,
  endAt: number,
): Promise<Answer> {
  try {
    if (waitMs > 0) {
      const result = await queue.wait(uri, { timeoutMs: Math.max(0, endAt - performance.now()) });
      if (deletes) await queue.queryAndDelete(uri);
      return { uri, result };
    }
    const result = await (deletes ? queue.queryAndDelete(uri) : queue.query(uri));
    return result ? { uri, result } : { uri };
  } catch (error) {
    const known = ServingError.from(error);
    // A record's own failure carries its uri; so does a wait that ended without a result.
    if (known.uri !== uri) throw known;
    if (waitMs > 0 && known.code === 'timeout') return { uri };
    if (waitMs > 0 && deletes) await queue.queryAndDelete(uri).catch(() => undefined);
    return { uri, error: known };
  }
}

/** One by one as they come: --all may be more than fits into memory. */
async function tell(found: AsyncIterable<Answer>, output: Output): Promise<number> {
  let code: number = EXIT.ok;
  let count = 0;
  let end = ']}';
  try {
    for await (const answer of found) {
      const text = output.json ? jsonOf(answer) : `${textOf(answer)}\n`;
      output.piece(output.json ? `${count === 0 ? '{"results":[' : ','}${text}` : text);
      count++;
      if ('error' in answer) code = EXIT.failed;
      else if (!('result' in answer) && code === EXIT.ok) code = EXIT.notReady;
    }
  } catch (error) {
    // Before the first one it is just an error; after it, the document that has begun still ends well.
    if (count === 0) throw error;
    const known = ServingError.from(error);
    output.note(`error: ${known.message}`);
    end = `],${JSON.stringify({ error: known.message, code: known.code }).slice(1)}`;
    code = EXIT.failed;
  }
  if (output.json) output.piece(`${count === 0 ? '{"results":[' : ''}${end}\n`);
  else if (count === 0) output.piece('no results\n');
  return code;
}

function jsonOf(answer: Answer): string {
  if ('result' in answer) return resultText(answer.result);
  if ('error' in answer) return JSON.stringify(failureBody(answer.error));
  return JSON.stringify({ uri: answer.uri, status: 'pending' });
}

function textOf(answer: Answer): string {
  if ('result' in answer) return resultLines(answer.result);
  return 'error' in answer ? failedLine(answer.error) : pendingLine(answer.uri);
}
