/**
 * `cluster-serving enqueue`. In: images with their uris, a folder of images, or a file of records. Out: all of them
 * in the queue, or named.
 * Trap: one file that cannot be read must not keep the others out; each record that was not taken is told by its uri.
 */
import { existsSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { join, sep } from 'node:path';
import { ServingError } from '../../lib/contract/errors.ts';
import { postJson } from '../../sdk/fetch.ts';
import { InputQueue, type QueueRecord } from '../../sdk/index.ts';
import { COMMON_HELP, defineCommand, wrongUse } from '../command.ts';
import { readInput } from '../files.ts';
import { EXIT, type Output } from '../output.ts';
import { showProgress } from '../progress.ts';
import { recordsOf } from '../records.ts';
import {
  findService,
  JOB_HELP,
  JOB_OPTION,
  notRunning,
  SERVICE_HELP,
  SERVICE_OPTIONS,
  type Service,
} from '../service.ts';

const HELP = `Usage: cluster-serving enqueue [options] <uri>=<image>...
       cluster-serving enqueue [options] --dir <folder> | --file <file>

Puts records into the queue; each is in the queue or named as an error when this ends. Their results: query.

      --dir <folder>      every PNG and JPEG below the folder; its path there is its uri
      --prefix <text>     put before each uri of --dir
      --file <file>       JSON, - reads stdin: records {"uri": ..., "inputs": {...}}, one, an array or one a line, with
                          inputs as the SDK takes them; or a request {"instances": [...], "uris": [...]}
      --input <name>      the model's input that images are for (default image; with one input any name will do)
${SERVICE_HELP}
      --queue-url <url>   SQS queue of a service elsewhere; without it and --url, found by the job's name in AWS
      --bucket <name>     its bucket, for records over 1 MiB
      --redis-url <url>   its Redis: a uri that is in use for another record is then refused, as it is here
${JOB_HELP}
${COMMON_HELP}`;

const SHOWN_FAILURES = 20;

export const enqueue = defineCommand({
  name: 'enqueue',
  help: HELP,
  options: {
    dir: { type: 'string' },
    prefix: { type: 'string' },
    file: { type: 'string' },
    input: { type: 'string' },
    ...SERVICE_OPTIONS,
    'queue-url': { type: 'string' },
    bucket: { type: 'string' },
    'redis-url': { type: 'string' },
    ...JOB_OPTION,
  },
  takesArguments: true,
  async run({ dir, file, prefix, input = 'image', ...values }, output, pairs) {
    const sources = [dir, file, pairs.length > 0 ? pairs : undefined].filter(
      (source) => source !== undefined,
    );
    if (sources.length !== 1) throw wrongUse('enqueue takes one of: <uri>=<image>..., --dir, --file');
    if (prefix !== undefined && dir === undefined) throw wrongUse('--prefix goes with --dir');
    const service = await findService(values);
    if (!service) return notRunning(values, output, '--url or --queue-url');
    if (dir !== undefined) return send(await recordsOfFolder(dir, prefix ?? '', input), service, output);
    if (file === undefined)
      return send(
        pairs.map((pair) => recordOfPair(pair, input)),
        service,
        output,
      );
    const content = recordsOf(await readInput(file), file === '-' ? 'stdin' : file);
    return 'body' in content
      ? sendRequest(content.body, service, output)
      : send(content.records, service, output);
  },
});

/** `a=b.png`; where a uri or a path holds "=" itself, the one split that names a file. */
function recordOfPair(pair: string, input: string): QueueRecord {
  const splits = [...pair.matchAll(/=/g)]
    .map(({ index }) => ({ uri: pair.slice(0, index), path: pair.slice(index + 1) }))
    .filter(({ uri, path }) => uri !== '' && path !== '');
  const found = splits.length > 1 ? splits.filter(({ path }) => existsSync(path)) : splits;
  const [only] = found;
  if (only === undefined || found.length > 1) {
    throw wrongUse(`${JSON.stringify(pair)}: expected <uri>=<image>, with one way to read it`);
  }
  return { uri: only.uri, inputs: { [input]: only.path } };
}

async function recordsOfFolder(folder: string, prefix: string, input: string): Promise<QueueRecord[]> {
  const names = await readdir(folder, { recursive: true }).catch((error: Error) => {
    throw new ServingError('bad_request', `${folder} cannot be read: ${error.message}`, { cause: error });
  });
  const images = names.filter((name) => /\.(png|jpe?g)$/i.test(name)).sort();
  if (images.length === 0) throw new ServingError('bad_request', `${folder}: no PNG or JPEG below it`);
  return images.map((name) => ({
    uri: prefix + name.replaceAll(sep, '/'),
    inputs: { [input]: join(folder, name) },
  }));
}

async function send(records: readonly QueueRecord[], service: Service, output: Output): Promise<number> {
  const { job, queueUrl, endpoint, region, bucket, http, redisUrl } = service;
  const queue = new InputQueue({
    name: job,
    ...(queueUrl === undefined ? {} : { queueUrl }),
    ...(endpoint === undefined ? {} : { endpoint }),
    ...(region === undefined ? {} : { region }),
    ...(bucket === undefined ? {} : { bucket }),
    ...(http === undefined ? {} : { frontendUrl: http }),
    ...(redisUrl === undefined ? {} : { redisUrl }),
  });
  const progress = showProgress(process.stderr, records.length, () => performance.now());
  let taken = 0;
  let failed: readonly ServingError[] = [];
  try {
    await queue.enqueueMany(records, (count) => {
      taken = count;
      progress.update(count);
    });
  } catch (error) {
    if (!(error instanceof AggregateError)) throw error;
    failed = error.errors.map((one) => ServingError.from(one));
  } finally {
    progress.end();
    await queue.close();
  }
  tellFailures(failed, output);
  const where = queueUrl ?? http ?? `the queue of ${job}`;
  output.answer(
    { enqueued: taken, failed: failed.map(({ uri, code, message }) => ({ uri, code, error: message })) },
    `${taken} ${taken === 1 ? 'record' : 'records'} enqueued in ${where}`,
  );
  return failed.length === 0 ? EXIT.ok : EXIT.failed;
}

function tellFailures(failed: readonly ServingError[], output: Output): void {
  for (const { uri, message } of failed.slice(0, SHOWN_FAILURES)) output.note(`error: ${uri}: ${message}`);
  if (failed.length > SHOWN_FAILURES) output.note(`error: and ${failed.length - SHOWN_FAILURES} more`);
}

/** A request is for the service to read: only its model knows whether a text is an image. */
async function sendRequest(body: string, { http }: Service, output: Output): Promise<number> {
  if (http === undefined) throw wrongUse('a request {"instances"} goes to the HTTPS API: say --url');
  const url = `${http.replace(/\/+$/, '')}/predictions`;
  const answer = ((await postJson(url, body)) ?? {}) as { uri?: string; uris?: string[] };
  const uris = answer.uris ?? (answer.uri === undefined ? [] : [answer.uri]);
  if (uris.length === 0) throw wrongUse(`${url} answered, but not as this service does`);
  output.answer({ enqueued: uris.length, failed: [], uris }, uris.join('\n'));
  return EXIT.ok;
}
