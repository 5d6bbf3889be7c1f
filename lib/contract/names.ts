/**
 * The Redis keys and S3 prefixes of a job, and the rules for job names, uris and addresses in S3. Old Python clients run `KEYS
 * cluster-serving_<job>:*` and read every hit as a result, so no other key may start with that.
 */
import { URI_BYTES } from './client-limits.ts';
import { badConfig, badRequest, ServingError } from './errors.ts';

/** The version in package.json. */
export const SERVER_VERSION = '0.1.0';

export const DEFAULT_JOB_NAME = 'serving_stream';

/** No `:` and no glob characters: `a` can never name a key of job `a:b`. 60 leaves room for SQS suffixes (80 in all). */
const JOB_NAME = /^[A-Za-z0-9][A-Za-z0-9_-]{0,59}$/;

/** @throws bad_config when `name` cannot name a job */
export function assertJobName(name: string): string {
  if (!JOB_NAME.test(name)) {
    throw badConfig(
      `job name ${JSON.stringify(name)}: expected 1 to 60 letters, digits, "-" or "_", starting with a letter or digit`,
    );
  }
  return name;
}

/** True for what can name a further model of a job: the same texts as for a job. */
export function isModelName(name: unknown): name is string {
  return typeof name === 'string' && JOB_NAME.test(name);
}

/** The name of a model in a request or a record: which exist is known where it runs. @throws not_found for what can name none */
export function assertModelAsked(name: string): string {
  if (JOB_NAME.test(name)) return name;
  const text = JSON.stringify(name.slice(0, 80));
  throw new ServingError('not_found', `no model ${text}; names have 1 to 60 letters, digits, "-" or "_"`);
}

/** @throws bad_config when `name` cannot name a further model of the job */
export function assertModelName(name: string, job: string): string {
  if (name === job)
    throw badConfig(`model ${name}: the job's own model has its name; leave the name of the model out`);
  if (isModelName(name)) return name;
  throw badConfig(
    `model name ${JSON.stringify(name)}: expected 1 to 60 letters, digits, "-" or "_", starting with a letter or digit`,
  );
}

/**
 * The parts of `s3://bucket/prefix`; undefined for any other text.
 * @returns the key without its bucket and the slash between them, which may be empty
 */
export function readS3Address(text: string): { readonly bucket: string; readonly key: string } | undefined {
  const [, bucket, key = ''] = /^s3:\/\/([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])(?:\/(.*))?$/.exec(text) ?? [];
  return bucket === undefined || key.startsWith('/') ? undefined : { bucket, key };
}

/**
 * Any text is a uri, including `a:b`, `../x` and `*`; only characters that would break a line-based tool are refused.
 * @throws bad_request for anything but 1 to 1,024 bytes of well-formed text without control characters
 */
export function assertUri(uri: unknown): string {
  if (typeof uri !== 'string' || uri === '') {
    throw badRequest(`uri: expected a text of 1 to ${URI_BYTES} bytes, got ${describe(uri)}`);
  }
  // A unit of UTF-16 has at most three bytes; browsers have no Buffer.
  if (uri.length * 3 > URI_BYTES) {
    const bytes = new TextEncoder().encode(uri).length;
    if (bytes > URI_BYTES) throw badRequest(`uri: ${bytes} bytes are over the limit of ${URI_BYTES}`);
  }
  if (/[\u0000-\u001f\u007f]/.test(uri) || !uri.isWellFormed()) {
    throw badRequest('uri: control characters and lone surrogates are not allowed');
  }
  return uri;
}

function describe(value: unknown): string {
  if (value === '') return 'an empty text';
  if (value === undefined) return 'nothing';
  return value === null ? 'null' : typeof value;
}

/** The hash of one result, under the key that an unmodified Python OutputQueue reads. */
export function resultKey(job: string, uri: string): string {
  return `cluster-serving_${job}:${uri}`;
}

/** The hash of a uri's state: the enqueues that were announced and have no outcome yet, and which of them is running. */
export function stateKey(job: string, uri: string): string {
  return `cluster-serving-state_${job}:${uri}`;
}

/**
 * The digest of the request that a client gave this Idempotency-Key. No uri has a control character, so it is the state of
 * none; users of a Redis that jobs share have the right to it with their states.
 */
export function requestKey(job: string, key: string): string {
  return stateKey(job, `idempotency-key\t${key}`);
}

/** Counts of the trial of a canary. As with `requestKey`, it is the state of no uri. */
export function trialKey(job: string, trial: string): string {
  return stateKey(job, `trial\t${trial}`);
}

/** The costs of a month, as a whole and by day. As with `requestKey`, it is the state of no uri. */
export function budgetKey(job: string, month: string): string {
  return stateKey(job, `budget\t${month}`);
}

/** The object of S3 that says that a limit of the budget is reached. */
export function budgetMark(job: string): string {
  return `budget/${job}.json`;
}

/** The sorted set of uris with a result, scored by expiry (ms), which `dequeue` walks instead of KEYS. */
export function indexKey(job: string): string {
  return `cluster-serving-index_${job}`;
}

/**
 * The idempotency record of a uri: the newest enqueue that had an outcome. It outlives the result, so that neither the
 * same message nor an older one gets a result again after the result was taken, deleted or expired.
 */
export function newestKey(job: string, uri: string): string {
  return `cluster-serving-newest_${job}:${uri}`;
}

/** How often a redelivered record ran without an outcome. A replay of the enqueue has a count of its own. */
export function runCountKey(job: string, enqueue: string, uri: string): string {
  return `cluster-serving-runs_${job}:${enqueue}:${uri}`;
}

/** The key of a leased result until its client certainly has it. */
export function leaseKey(job: string, leaseId: string, uri: string): string {
  return `cluster-serving-held_${job}:${leaseId}:${uri}`;
}

/** The channel that gets one message when `uri` has a result. */
export function doneChannel(job: string, uri: string): string {
  return `cluster-serving-done_${job}:${uri}`;
}

/** Hash of merged counters and histogram buckets of a job. */
export function metricsKey(job: string): string {
  return `cluster-serving-metrics_${job}`;
}

/** Token bucket of a job's POST /predict. */
export function limiterKey(job: string): string {
  return `cluster-serving-tokens_${job}`;
}

/** A model of a job: its own, or the further one of this name. */
export interface JobModel {
  readonly job: string;
  readonly model?: string | undefined;
}

/** @param model the name of a further model, whose place has all that the place of the job's own has */
export function modelPrefix(job: string, model?: string): string {
  return `models/${job}/${folderOf(model)}`;
}

/** Below it, the further models of a job have a folder each, under their names. */
export function namedModelsPrefix(job: string): string {
  return `${modelPrefix(job)}${NAMED}`;
}

/** The model whose place a prefix is; undefined for any other prefix. */
export function modelAt(prefix: string): JobModel | undefined {
  const [, job, model] = /^models\/([^/]+)\/(?:named\/([^/]+)\/)?$/.exec(prefix) ?? [];
  return job === undefined ? undefined : { job, model };
}

/** The names of further models that may have a version on trial. */
export function furtherTrialsKey(job: string): string {
  return `${modelPrefix(job)}further-trials.json`;
}

const NAMED = 'named/';

function folderOf(model: string | undefined): string {
  return model === undefined ? '' : `${NAMED}${model}/`;
}

export function deadLetterPrefix(job: string): string {
  return `dead-letters/${job}/`;
}

/** Notices that no function has sent yet (lib/s3/outbox.ts). */
export function outboxPrefix(job: string): string {
  return `outbox/${job}/`;
}

/** An object for each target that is paused, under its name. */
export function pausedPrefix(job: string): string {
  return `paused/${job}/`;
}

/** Captured requests and records, by version of the model. Those of further models lie in folders of their names. */
export function capturesPrefix(job: string, model?: string): string {
  return `captures/${job}/${folderOf(model)}`;
}

/** Below it are the captures of further models. */
export function namedCapturesPrefix(job: string): string {
  return `${capturesPrefix(job)}${NAMED}`;
}

/** The report of the last replay, which the console shows. It lies below captures, whose readers may see it. */
export function lastReplayKey({ job, model }: JobModel): string {
  return `${capturesPrefix(job, model)}last-replay.json`;
}

/** Jobs over files: what is dropped in `in/` begins one, `out/` has results, and `run/<id>/` what a job has done so far. */
export function fileJobsPrefix(job: string): string {
  return `jobs/${job}/`;
}

export function payloadPrefix(job: string): string {
  return `payloads/${job}/`;
}

/** Bodies that clients have uploaded. No pointer of a message leads there. */
export function uploadPrefix(job: string): string {
  return `${payloadPrefix(job)}uploads/`;
}

/** Results that are too large for Redis: `<id>` in the stored form, `<id>.json` in the form of HTTPS answers. */
export function largeResultPrefix(job: string): string {
  return `results/${job}/`;
}

/** The path of a result over HTTP. API Gateway would interpret `?`, `/` and `..` of the uri in a path. */
export function locationOf(uri: string): string {
  return /^[\w-]+$/.test(uri) ? `/predictions/${uri}` : `/predictions?uri=${encodeURIComponent(uri)}`;
}
