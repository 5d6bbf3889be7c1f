/**
 * Runs the service in this process until it is stopped, and prints the output of `npm start` and `cluster-serving
 * start --foreground`. "ready" is printed only when a request would be answered.
 */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { LocalLog } from '../aws/lambda.ts';
import { readToken } from '../machine/access.ts';
import { outliveOutput } from '../machine/output.ts';
import { identify } from '../machine/process.ts';
import { onStopSignal } from '../machine/signals.ts';
import { addressText } from './address-text.ts';
import {
  type Addresses,
  claimFolder,
  type JobPlaces,
  type StackRecord,
  tokenFileOf,
  writeOptions,
  writeRecord,
} from './data-folder.ts';
import type { JobAddresses } from './job.ts';
import { runSample, type SampleReport, sampleTable } from './sample.ts';
import { type Stack, startStack } from './stack.ts';
import type { StartSettings } from './start-options.ts';

interface ServeOptions {
  /** Prints JSON, one value per line. */
  readonly json: boolean;
  /** True if a caller with the token of its port may end it. */
  readonly isControlled?: boolean;
  /** The file of the output when it is not a terminal. */
  readonly log?: string | undefined;
  /** Called when requests are answered. */
  readonly onReady?: (record: StackRecord, sample: SampleReport | undefined) => Promise<void>;
}

/** @returns the exit code. @throws bad_config and the errors of the parts */
export async function serve(
  given: StartSettings,
  { json, isControlled, log, onReady }: ServeOptions,
): Promise<number> {
  const { dataDir, jobs } = given;
  const { promise: stopped, resolve: stop } = Promise.withResolvers<string>();
  onStopSignal(stop);
  outliveOutput();
  // For the files of redis-server, SQLite and the converters too.
  process.umask(0o077);
  for (const note of given.notes) console.error(`note: ${note}`);
  await claimFolder(dataDir);
  const { curl, ...settings } = await withMadeToken(given);
  const { startedWith } = settings;
  if (!settings.once) await writeOptions(dataDir, startedWith);
  const stack = await startStack({
    jobs,
    dataDir,
    ports: settings.ports,
    access: settings.access,
    preferEmbeddedRedis: settings.preferEmbeddedRedis,
    log: localLog(settings.verbose),
    ...(isControlled ? { terminate: stop } : {}),
  });
  let forget = async () => {};
  try {
    const isWorker = jobs.every(({ job }) => job.worker.class !== undefined);
    const called = curl && { curl: await curl(stack) };
    const addresses = { ...addressesOf(stack), ...called, ...(isWorker && { isWorker }) };
    if (!json) console.log(addressText(addresses));
    const sample = settings.sample
      ? await runSample(stack, settings.sample, settings.access.token)
      : undefined;
    if (json) console.log(JSON.stringify({ ...addresses, ...(sample ? { sample } : {}) }));
    else if (sample) {
      console.log(`\nThe digits sample, from POST /predict and through the queue:\n${sampleTable(sample)}\n`);
    }
    if (settings.once) return sample === undefined || sample.right === sample.rows.length ? 0 : 1;
    const record: StackRecord = {
      ...(await identify(process.pid)),
      since: new Date().toISOString(),
      ...addresses,
      ...(log ? { log } : {}),
      startedWith,
    };
    forget = await writeRecord(dataDir, record);
    if (!json && addresses.curl !== undefined) console.log(`call ${addresses.curl}`);
    const ready = addresses.jobs.map(({ http }) => http).join(' ');
    console.log(json ? JSON.stringify({ ready: stack.url }) : `ready ${ready}`);
    await onReady?.(record, sample);
    const signal = await stopped;
    if (!json) console.log(`\n${signal}: stopping`);
    return 0;
  } finally {
    // Removed before the endpoints close, so that no client is sent to a service that is stopping.
    await forget();
    await stack.close();
  }
}

/**
 * With --make-token the service starts as with --token-file of a file in its data folder: so does a restart, and so do
 * the commands find the token.
 */
async function withMadeToken(
  settings: StartSettings,
): Promise<StartSettings & { readonly curl?: (stack: Stack) => Promise<string> }> {
  const { 'make-token': makesToken, ...startedWith } = settings.startedWith;
  if (!makesToken) return settings;
  const file = await tokenFileOf(settings.dataDir);
  const token = readToken(file);
  return {
    ...settings,
    access: { ...settings.access, token },
    startedWith: { ...startedWith, 'token-file': file },
    curl: (stack) => curlText(placesOf(stack).http, token, settings.sample),
  };
}

/** One that can be pasted and is answered with 200: a digit of the sample, and for other models whether they are ready. */
async function curlText(http: string, token: string, sample: string | undefined): Promise<string> {
  const call = `curl -H 'Authorization: Bearer ${token}' ${http}`;
  if (sample === undefined) return `${call}/ready`;
  const image = await readFile(join(sample, 'images', 'digit-3.png'), 'base64');
  return `${call}/predict -d '${JSON.stringify({ instances: [{ image }] })}'`;
}

function addressesOf(stack: Stack): Addresses {
  const first = placesOf(stack);
  return {
    ...first,
    jobs: stack.jobs.map(placesOf),
    redisUrl: stack.redisUrl,
    ...(stack.grpcPort === undefined ? {} : { grpc: `${new URL(first.http).hostname}:${stack.grpcPort}` }),
    redis: stack.redis.kind,
    redisVersion: stack.redis.version,
    bucket: stack.bucket,
    environment: stack.aws.environment,
  };
}

function placesOf({
  job,
  model,
  modelNotes,
  verification,
  url,
  queueUrl,
  deadLetterUrl,
}: JobAddresses): JobPlaces {
  const http = url.replace('127.0.0.1', 'localhost');
  return { job, model, modelNotes, verification, http, queueUrl, deadLetterUrl };
}

function localLog(verbose: boolean): LocalLog {
  const write = (message: string, fields: Readonly<Record<string, unknown>> = {}) => {
    const rest = Object.keys(fields).length > 0 ? ` ${JSON.stringify(fields)}` : '';
    process.stderr.write(`${message}${rest}\n`);
  };
  return { info: verbose ? write : () => undefined, warn: write, error: write };
}
