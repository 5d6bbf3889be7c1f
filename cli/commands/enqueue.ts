/**
 * `cluster-serving enqueue`. An unreadable file does not stop the other records; each record that was not enqueued is
 * reported with its uri.
 */
import { existsSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { join, sep } from 'node:path';
import { readCanaryKey } from '../../lib/contract/enqueue.ts';
import { ServingError } from '../../lib/contract/errors.ts';
import { assertNotified, isTargetName, NAME_RULE, type Notified } from '../../lib/contract/notice.ts';
import { assertSchedule, type Schedule, scheduleOfTexts } from '../../lib/contract/schedule.ts';
import { queryOf } from '../../sdk/http/headers.ts';
import type { QueueRecord } from '../../sdk/index.ts';
import { defineCommand, wrongUse } from '../command.ts';
import { EXIT, type Output } from '../output.ts';
import { showProgress } from '../progress.ts';
import { openQueue, QUEUE_OPTIONS } from '../queue.ts';
import { readInput, recordsOf } from '../records.ts';
import {
  CANARY_KEY,
  findService,
  JOB,
  MODEL,
  notRunning,
  post,
  SERVICE_OPTIONS,
  type Service,
  textsOf,
} from '../service.ts';
import { readTable, recordsOfTable } from '../table.ts';
import { INPUT } from './predict.ts';

const SHOWN_FAILURES = 20;

export const command = defineCommand({
  name: 'enqueue',
  usage: ['[options] <uri>=<image>...', '[options] --dir <folder> | --file <file>'],
  about: `Puts records into the queue. When it ends, each record is in the queue or reported as an error; \`query\` prints
the results. A JSON file holds records {"uri": ..., "inputs": {...}} (one, an array, or one a line) with inputs as the
SDK takes them, or a request {"instances": [...], "uris": [...]}. Of a CSV file, each row is a record.`,
  options: {
    dir: {
      value: 'folder',
      about: 'every JPEG, PNG, WebP, BMP, GIF and TIFF below the folder; the path below it is the uri',
    },
    prefix: { value: 'text', about: 'put before each uri of --dir' },
    file: {
      value: 'file',
      about: 'JSON file, or CSV file (*.csv) with the names of columns first; - reads stdin as JSON',
    },
    'uri-column': {
      value: 'name',
      about: 'column of a CSV file with the uris (default: `uri`, else <file>-<row>)',
    },
    input: INPUT,
    ...SERVICE_OPTIONS,
    ...QUEUE_OPTIONS,
    tenant: {
      value: 'name',
      about:
        'whose records they are: SQS delivers those of a tenant who sends many after the others (not with --url)',
    },
    model: MODEL,
    'canary-key': CANARY_KEY,
    notify: {
      value: 'name',
      about: 'a target of `notify` in config.yaml, which gets a notice when each of the records is done',
    },
    'task-token': {
      value: 'token',
      about: 'the task of Step Functions that one record ends, where the target has `stepFunctions`',
    },
    'expires-after': {
      value: 'seconds',
      about: 'a record that still waits then is not run, and fails with `record_expired`',
    },
    'delay-seconds': { value: 'seconds', about: 'how long no record runs, at most 900' },
    priority: {
      choices: ['high', 'normal'],
      about: '`high`: they do not wait behind other records (needs `queue.highShare` in config.yaml)',
    },
    job: JOB,
  },
  async run(
    { dir, file, prefix, input, tenant, model, 'canary-key': key, 'uri-column': uriColumn, ...values },
    output,
    pairs,
  ) {
    const said = { ...notifiedOf(values), ...scheduleOf(values) };
    const canaryKey = readCanaryKey(key);
    const sources = [dir, file, pairs[0]].filter((source) => source !== undefined);
    if (sources.length !== 1) throw wrongUse('enqueue takes one of: <uri>=<image>..., --dir, --file');
    if (prefix !== undefined && dir === undefined) throw wrongUse('--prefix goes with --dir');
    const isTable = file !== undefined && /\.csv$/i.test(file);
    if (uriColumn !== undefined && !isTable) throw wrongUse('--uri-column goes with --file and a CSV file');
    const service = await findService(values);
    if (!service) return notRunning(values, output, '--url, --queue-url or --stack');
    if (tenant !== undefined && service.http !== undefined && service.queueUrl === undefined)
      throw wrongUse('--tenant goes with a queue: pass --stack or --queue-url');
    const sendAll = (records: readonly QueueRecord[]) =>
      send(
        ofOneTask(records, said).map((one) => ({
          ...one,
          ...(tenant && { tenant }),
          canaryKey,
          model,
          ...said,
        })),
        service,
        output,
      );
    if (isTable) return sendAll(recordsOfTable(await readTable(file), uriColumn));
    if (dir !== undefined) return sendAll(await recordsOfFolder(dir, prefix ?? '', input));
    if (file === undefined) {
      return sendAll(pairs.map((pair) => recordOfPair(pair, input)));
    }
    const content = recordsOf(await readInput(file), file === '-' ? 'stdin' : file);
    if ('records' in content) return sendAll(content.records);
    if (tenant !== undefined) throw wrongUse('--tenant goes with records, not with a request {"instances"}');
    return sendRequest(content.body, { ...said, canaryKey, model }, service, output);
  },
});

function notifiedOf(values: {
  readonly notify?: string | undefined;
  readonly 'task-token'?: string | undefined;
}): Notified {
  const { notify, 'task-token': taskToken } = values;
  if (notify !== undefined && !isTargetName(notify))
    throw wrongUse(`--notify ${JSON.stringify(notify)}: expected ${NAME_RULE}`);
  if (taskToken !== undefined && notify === undefined)
    throw wrongUse('--task-token goes with --notify, the name of a target with stepFunctions');
  return assertNotified({ notify, taskToken });
}

function scheduleOf(values: {
  readonly 'expires-after'?: string | undefined;
  readonly 'delay-seconds'?: string | undefined;
  readonly priority?: string | undefined;
}): Schedule {
  const { 'expires-after': expiresAfter, 'delay-seconds': delaySeconds, priority } = values;
  return assertSchedule(scheduleOfTexts({ expiresAfter, delaySeconds, priority }));
}

/** A task ends once. */
function ofOneTask(records: readonly QueueRecord[], { taskToken }: Notified): readonly QueueRecord[] {
  if (taskToken === undefined || records.length === 1) return records;
  throw wrongUse(`--task-token goes with one record, got ${records.length}`);
}

/** Parses `a=b.png`. If the uri or the path contains "=", the split that names an existing file counts. */
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
  const images = names.filter((name) => /\.(png|jpe?g|webp|bmp|gif|tiff?)$/i.test(name)).sort();
  if (images.length === 0)
    throw new ServingError('bad_request', `${folder}: no JPEG, PNG, WebP, BMP, GIF or TIFF below it`);
  return images.map((name) => ({
    uri: prefix + name.replaceAll(sep, '/'),
    inputs: { [input]: join(folder, name) },
  }));
}

async function send(records: readonly QueueRecord[], service: Service, output: Output): Promise<number> {
  const { job, queueUrl, http } = service;
  const queue = openQueue(service);
  const progress = showProgress(output.json);
  let enqueued = 0;
  let errors: readonly ServingError[] = [];
  try {
    await queue.enqueueMany(records, (done) => {
      enqueued = done;
      progress.update({ done, total: records.length });
    });
  } catch (error) {
    if (!(error instanceof AggregateError)) throw error;
    errors = error.errors.map((one) => ServingError.from(one));
  } finally {
    progress.end();
    await queue.close();
  }
  for (const { uri, message } of errors.slice(0, SHOWN_FAILURES)) output.note(`error: ${uri}: ${message}`);
  if (errors.length > SHOWN_FAILURES) output.note(`error: and ${errors.length - SHOWN_FAILURES} more`);
  const failed = errors.map(({ uri, code, message }) => ({ uri, code, error: message }));
  const where = queueUrl ?? http ?? `the queue of ${job}`;
  const noun = enqueued === 1 ? 'record' : 'records';
  output.answer({ enqueued, failed }, `${enqueued} ${noun} enqueued in ${where}`);
  return failed.length === 0 ? EXIT.ok : EXIT.failed;
}

/** Sends a request unchanged, because only the service's model decides whether a text is an image. */
async function sendRequest(
  body: string,
  { taskToken, canaryKey, model, ...said }: Notified & Schedule & Pick<QueueRecord, 'canaryKey' | 'model'>,
  service: Service,
  output: Output,
): Promise<number> {
  if (taskToken !== undefined)
    throw wrongUse('--task-token goes with records; put taskToken into the request');
  const sent = {
    path: `/predictions${queryOf({ ...said })}`,
    body,
    command: 'a request {"instances"}',
    canaryKey,
    model,
  };
  const uris = await post(service, sent, (answer) => textsOf(answer['uris'] ?? [answer['uri']]));
  output.answer({ enqueued: uris.length, failed: [], uris }, uris.join('\n'));
  return EXIT.ok;
}
