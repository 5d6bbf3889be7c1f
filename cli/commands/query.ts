/**
 * `cluster-serving query`. The exit code is 1 for a failed record and 4 for a missing result, so that scripts can
 * tell them apart. OutputQueue is imported by its file, because sdk/index.ts also loads SQS, which takes 0.2 s per
 * call.
 */

import { ServingError } from '../../lib/contract/errors.ts';
import { present } from '../../lib/contract/present.ts';
import { failureBody } from '../../lib/http/predictions.ts';
import { resultText } from '../../lib/pipeline/answer/result-text.ts';
import type { Result } from '../../sdk/index.ts';
import { OutputQueue } from '../../sdk/output-queue.ts';
import { defineCommand, grouped, wrongUse } from '../command.ts';
import { EXIT, listDocument, type Output } from '../output.ts';
import { namesOfClasses, resultLines } from '../results.ts';
import { findService, JOB, notRunning, SERVICE_OPTIONS } from '../service.ts';

/** Concurrent waits and reads. */
const IN_FLIGHT = 64;

type Answer = { readonly uri: string; readonly result?: Result; readonly error?: ServingError };

type Asking = Readonly<{ waitMs: number; deletes: boolean; endAt: number }>;

export const command = defineCommand({
  name: 'query',
  usage: ['[options] <uri>...', '[options] --all --delete'],
  about: `Prints the results of these uris, or takes all there are. Exit code: 1 when a record has failed, else 4 when one
has no result (yet).`,
  options: {
    wait: {
      value: 's',
      range: [0, 86_400],
      default: 0,
      about: 'wait for results that are not there yet; with --all, take no more after that time',
    },
    delete: { about: 'delete the results after printing them' },
    all: { about: 'every finished result of the job; they are taken away, so it needs --delete' },
    ...SERVICE_OPTIONS,
    ...grouped('Connection', {
      'redis-url': { value: 'url', about: 'Redis of another service: redis://host:port' },
    }),
    job: JOB,
  },
  async run({ wait, delete: deletes = false, all = false, ...values }, output, uris) {
    if (all === uris.length > 0) throw wrongUse('query what? Give uris, or --all');
    if (all && !deletes) throw wrongUse('--all removes the results; confirm with --delete');
    const service = await findService(values);
    if (!service) return notRunning(values, output, '--url, --redis-url or --stack');
    const url = service.redisUrl ?? service.http;
    if (!url) throw wrongUse('query needs to know where the results are: pass --stack, --url or --redis-url');
    const queue = new OutputQueue({ ...service.access, name: service.job, url });
    try {
      const waitMs = wait * 1000;
      const asking = { waitMs, deletes, endAt: performance.now() + waitMs };
      return await print(
        all ? queue.drain(waitMs > 0 ? { timeoutMs: waitMs } : {}) : answers(queue, uris, asking),
        output,
        namesOfClasses(service),
      );
    } finally {
      await queue.close();
    }
  },
});

/** Yields answers in the order of the uris. */
async function* answers(queue: OutputQueue, uris: readonly string[], asking: Asking): AsyncGenerator<Answer> {
  const flying: Promise<Answer>[] = [];
  for (const uri of uris) {
    flying.push(answerFor(queue, uri, asking));
    // A failure is thrown when its turn comes; until then it is not awaited.
    flying.at(-1)?.catch(() => undefined);
    if (flying.length === IN_FLIGHT) yield present(await flying.shift(), 'answer');
  }
  for (const answer of flying) yield await answer;
}

async function answerFor(queue: OutputQueue, uri: string, asking: Asking): Promise<Answer> {
  const { waitMs, deletes, endAt } = asking;
  try {
    if (waitMs > 0) {
      const timeoutMs = Math.max(0, endAt - performance.now());
      return { uri, result: await queue.wait(uri, { timeoutMs, take: deletes }) };
    }
    const result = await (deletes ? queue.queryAndDelete(uri) : queue.query(uri));
    return result ? { uri, result } : { uri };
  } catch (error) {
    const known = ServingError.from(error);
    // The error of a record has its uri, and so does a wait that ended without a result.
    if (known.uri !== uri) throw known;
    if (waitMs > 0 && known.code === 'timeout') return { uri };
    return { uri, error: known };
  }
}

/** Prints answers as they arrive, because --all may exceed memory. */
async function print(
  found: AsyncIterable<Answer>,
  output: Output,
  names: ReturnType<typeof namesOfClasses>,
): Promise<number> {
  const document = listDocument(output, '{"results":[');
  let code: number = EXIT.ok;
  let count = 0;
  let rest = {};
  try {
    for await (const answer of found) {
      if (output.json) document.add(jsonOf(answer));
      else output.piece(`${await textOf(answer, names)}\n`);
      count++;
      if (answer.error) code = EXIT.failed;
      else if (!answer.result && code === EXIT.ok) code = EXIT.notReady;
    }
  } catch (error) {
    // Before the first answer this is an ordinary error; afterwards the document must still be completed.
    if (count === 0) throw error;
    const known = ServingError.from(error);
    output.note(`error: ${known.message}`);
    rest = { error: known.message, code: known.code };
    code = EXIT.failed;
  }
  if (output.json) document.end(rest);
  else if (count === 0) output.piece('no results\n');
  return code;
}

function jsonOf(answer: Answer): unknown {
  if (answer.result) return resultText(answer.result);
  return answer.error ? failureBody(answer.error) : { ...answer, status: 'pending' };
}

async function textOf(answer: Answer, names: ReturnType<typeof namesOfClasses>): Promise<string> {
  const { result } = answer;
  if (result) return resultLines(result, result.outputs.length > 0 ? await names(result.model) : undefined);
  const { uri, error } = answer;
  return error ? `${uri}  failed: ${error.message} (${error.code})` : `${uri}  no result (yet)`;
}
