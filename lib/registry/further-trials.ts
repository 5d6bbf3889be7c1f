/**
 * The further models of a job that may have a version on trial: an object with their names, so that one read says which of thousands have to
 * be looked at. A pointer alone says whether there is a trial. An entry is written before the pointer, and every change is conditional.
 */
import { ServingError } from '../contract/errors.ts';
import { furtherTrialsKey, isModelName, modelAt } from '../contract/names.ts';
import { putTextIf } from '../s3/conditional.ts';
import { getTaggedText, type S3Client } from '../s3/objects.ts';
import { addressText, type ModelLocation, unreachable } from './download.ts';

export interface FurtherTrials {
  readonly etag: string | undefined;
  /** By name, when its last trial began, in ms since 1970. */
  readonly begun: ReadonlyMap<string, number>;
}

/** Further models that may be on trial at a time: all of them are looked at within a minute. */
const MOST_TRIALS = 50;
const ATTEMPTS = 5;

/** @throws model_unavailable */
export async function readFurtherTrials(s3: S3Client, bucket: string, job: string): Promise<FurtherTrials> {
  const key = furtherTrialsKey(job);
  const tagged = await getTaggedText(s3, { bucket, key }).catch((error: unknown) => {
    throw unreachable({ bucket, prefix: key }, error);
  });
  return { etag: tagged?.etag, begun: parse(tagged?.text) };
}

/**
 * Does nothing for the job's own model, which is always looked at.
 * @param since when the trial begins, ISO 8601
 * @throws conflict where as many are on trial as can be looked at; model_unavailable
 */
export async function addFurtherTrial(s3: S3Client, location: ModelLocation, since: string): Promise<void> {
  const { bucket } = location;
  const { job, model } = modelAt(location.prefix) ?? {};
  if (job === undefined || model === undefined) return;
  for (let attempt = 1; attempt <= ATTEMPTS; attempt++) {
    const { etag, begun } = await readFurtherTrials(s3, bucket, job);
    if (!begun.has(model) && begun.size >= MOST_TRIALS)
      throw new ServingError(
        'conflict',
        `${begun.size} further models are on trial, or were within the last hour, and ${MOST_TRIALS} is the limit; end or promote some, and wait an hour`,
      );
    if (await write(s3, bucket, job, { etag, begun: new Map([...begun, [model, Date.parse(since)]]) }))
      return;
  }
  throw new ServingError('conflict', `${addressText(location)}: others begin trials, too; try again`);
}

/** Does nothing where one has begun since they were read. @throws model_unavailable */
export async function removeFurtherTrials(
  s3: S3Client,
  bucket: string,
  job: string,
  { etag, begun }: FurtherTrials,
  names: ReadonlySet<string>,
): Promise<void> {
  const left = new Map([...begun].filter(([name]) => !names.has(name)));
  // Also looked at before, because not every store supports the condition.
  if (etag === (await readFurtherTrials(s3, bucket, job)).etag)
    await write(s3, bucket, job, { etag, begun: left });
}

function write(s3: S3Client, bucket: string, job: string, { etag, begun }: FurtherTrials): Promise<boolean> {
  const key = furtherTrialsKey(job);
  const text = `${JSON.stringify({ begun: Object.fromEntries(begun) })}\n`;
  return putTextIf(s3, { bucket, key }, text, etag).catch((error: unknown) => {
    throw unreachable({ bucket, prefix: key }, error);
  });
}

/** Nothing for a text that cannot be read, which is replaced. */
function parse(text: string | undefined): ReadonlyMap<string, number> {
  try {
    const { begun }: { readonly begun?: object } = Object(JSON.parse(text ?? 'null'));
    const entries = Object.entries(begun ?? {}).map(([name, at]) => [name, Number(at)] as const);
    return new Map(entries.filter(([name]) => isModelName(name)).slice(0, MOST_TRIALS));
  } catch {
    return new Map();
  }
}
