/**
 * Reads a deployment for the console. If the API or the caller's rights do not provide something, the reason is shown
 * instead.
 */
import type { Example, ModelFacts, Part, TimerFacts } from '../../console/api.ts';
import { axesOf, type JobConfig } from '../../lib/config/job.ts';
import { ServingError } from '../../lib/contract/errors.ts';
import { modelPrefix } from '../../lib/contract/names.ts';
import type { TimerReport } from '../../lib/metrics/timers.ts';
import { type ModelFacts as DescribedModel, modelOfMetadata } from '../../lib/openapi/facts.ts';
import { withInputAxes } from '../../lib/pipeline/batch/batch-axes.ts';
import { CaptureReader } from '../../lib/s3/capture-reader.ts';
import { captureFacts } from '../../local/console/captures.ts';
import { exampleOfVersion } from '../../local/console/example.ts';
import { JobPlace } from '../../local/console/job-place.ts';
import { cancelJob, jobList } from '../../local/console/jobs.ts';
import { furtherModels, inputFacts, outputFacts } from '../../local/console/model.ts';
import type { Notices } from '../../local/console/notices.ts';
import type { ConsoleSource } from '../../local/console/source.ts';
import {
  activateVersion,
  deadLetterPage,
  editableLetter,
  editOne,
  noticeFacts,
  replayOne,
  resumeTarget,
  versionsOf,
} from '../../local/console/stored.ts';
import { endVersion, promoteVersion, type VersionPlace } from '../../local/console/trial.ts';
import { installation } from '../../local/machine/installation.ts';
import { type Fetch, request } from '../../sdk/fetch.ts';
import { askLost } from '../capture/lost.ts';
import type { DlqPlace } from '../dlq/place.ts';
import { withRunner } from '../dlq/runner.ts';
import { costOf } from '../job/text.ts';
import { withNotices } from '../notify/notices.ts';
import { answeredInstance } from '../openapi/openapi.ts';
import { openQueue } from '../queue.ts';
import type { Service } from '../service.ts';

export interface RemoteOptions {
  readonly service: Service & { readonly http: string };
  readonly stack: string | undefined;
  /** Where S3 keeps dead letters; undefined if no bucket is known. */
  readonly place: DlqPlace | undefined;
  readonly send: Fetch;
}

const ASK_MS = 20_000;
const OF_WORKER = { unavailable: 'A worker takes and returns any JSON value.' };
const NO_BUCKET = 'Which bucket? --stack finds it, and --bucket names it.';
const NO_RECORDS =
  'A deployment keeps results in Redis, inside its network. `cluster-serving query <uri>` asks for one by its uri.';
const NO_HISTORY =
  'The functions of a deployment keep no history: its dashboard in CloudWatch has charts, queue depth and age, and failures by code.';
const NO_REPLAY =
  'A replay replaces a result in Redis: pass --redis-url where this machine reaches it, or use `cluster-serving dlq replay --enqueue`.';

export function remoteConsole(options: RemoteOptions): ConsoleSource {
  const { service, place } = options;
  const versions = place && {
    s3: place.s3,
    job: place.job,
    location: { bucket: place.bucket, prefix: modelPrefix(service.job) },
  };
  return {
    model: () => part(() => modelFacts(options, versions)),
    example: () => part(() => exampleFor(options, versions)),
    live: () => part(() => timers(options)),
    records: async () => ({ unavailable: NO_RECORDS }),
    deadLetters: (after) =>
      part(async () => {
        if (!place) return { unavailable: NO_BUCKET };
        const page = await deadLetterPage(place, after);
        return place.results ? page : { ...page, noReplay: NO_REPLAY };
      }),
    versions: () => part(async () => (versions ? versionsOf(versions) : { unavailable: NO_BUCKET })),
    editable: (id) => part(async () => (place ? editableLetter(place, id) : { unavailable: NO_BUCKET })),
    edit: async (id, payload) => {
      if (!place) throw new ServingError('bad_request', NO_BUCKET);
      const queue = openQueue({ ...service, queueUrl: undefined, redisUrl: undefined });
      try {
        return await editOne(place, id, payload, (record) => queue.enqueueMessage(record));
      } finally {
        await queue.close();
      }
    },
    notices: () => part(async () => withNoticesOf(options, noticeFacts)),
    captures: () =>
      part(async () => {
        if (!place) return { unavailable: NO_BUCKET };
        const lost = (await askLost(service)) ?? 0;
        return captureFacts(new CaptureReader(place.s3, place.bucket, { job: service.job }), lost, false);
      }),
    jobs: () => part(async () => (place ? jobList(jobPlace(options), costOf) : { unavailable: NO_BUCKET })),
    cancel: async (id) => cancelJob(jobPlace(options), id),
    resume: (target) => withNoticesOf(options, (notices) => resumeTarget(notices, target)),
    replay: (id) => {
      if (!place?.results) throw new ServingError('bad_request', place ? NO_REPLAY : NO_BUCKET);
      return withRunner(place, undefined, (runner) => replayOne(place, runner, id));
    },
    activate: (version) => activateVersion(known(versions), version),
    promote: (version) => promoteVersion(known(versions), version),
    end: (version) => endVersion(known(versions), version),
  };
}

/** @throws bad_request where the bucket is not known */
function jobPlace({ service, place }: RemoteOptions): JobPlace {
  if (place) return new JobPlace(place.s3, place.bucket, service.job, false);
  throw new ServingError('bad_request', NO_BUCKET);
}

function known(versions: VersionPlace | undefined): VersionPlace {
  if (versions) return versions;
  throw new ServingError('bad_request', NO_BUCKET);
}

/** @throws bad_request where the bucket or the queue is not known */
function withNoticesOf<T>(
  { service, place }: RemoteOptions,
  work: (notices: Notices) => Promise<T>,
): Promise<T> {
  const { job, queueUrl, region, endpoint } = service;
  if (!place) throw new ServingError('bad_request', NO_BUCKET);
  if (queueUrl === undefined) throw new ServingError('bad_request', 'Which queue? --stack finds it.');
  return withNotices({ job, bucket: place.bucket, queueUrl, region, endpoint }, work);
}

/** Returns the result of the work, or why there is none. */
async function part<T>(work: () => Promise<Part<T>>): Promise<Part<T>> {
  try {
    return await work();
  } catch (error) {
    return { unavailable: ServingError.from(error).message };
  }
}

async function modelFacts(options: RemoteOptions, versions: VersionPlace | undefined): Promise<ModelFacts> {
  const { service, stack, place } = options;
  const { http, job, access } = service;
  const described = await part(() => describedModel(options));
  const { model }: { readonly model?: string } = Object(await ask(options, '/ready'));
  const settings = place?.job ?? { image: {}, inputAlreadyBatched: false, inputs: {}, outputs: {} };
  const isWorker = place?.job.worker.class !== undefined;
  return {
    job,
    release: installation().version,
    kind: isWorker ? 'worker' : 'model',
    ...(place?.job.worker.class !== undefined && { worker: place.job.worker.class }),
    version: model ?? 'unknown',
    ...portsOf(described, settings),
    batching: await batchingOf(versions),
    filter: place?.job.postProcessing ?? '',
    notes: [],
    report: { unavailable: 'An import report stays where the model was imported.' },
    ...(place && !isWorker && { further: await furtherModels(place.s3, place.bucket, job) }),
    caller: {
      url: http,
      auth: access.auth ?? 'none',
      ...(stack !== undefined && { stack }),
      ...(service.region !== undefined && { region: service.region }),
    },
  };
}

async function ask({ service, send }: RemoteOptions, path: string): Promise<unknown> {
  return (await request(`${service.http}${path}`, {}, ASK_MS, undefined, send)).body;
}

async function describedModel(options: RemoteOptions): Promise<Part<DescribedModel>> {
  const path = `/v2/models/${encodeURIComponent(options.service.job)}`;
  return modelOfMetadata(await ask(options, path)) ?? OF_WORKER;
}

async function exampleFor(
  options: RemoteOptions,
  versions: VersionPlace | undefined,
): Promise<Part<Example>> {
  const { service, place, send } = options;
  const described = await describedModel(options);
  if ('unavailable' in described) return described;
  const find = async () => {
    const isBatched = place?.job.inputAlreadyBatched ?? false;
    const instance = await answeredInstance(service.http, send, described, isBatched);
    return instance && JSON.stringify({ instances: [instance] });
  };
  const { model }: { readonly model?: string } = Object(await ask(options, '/ready'));
  return exampleOfVersion(model === undefined ? undefined : versions, model ?? '', find);
}

function portsOf(
  described: Part<DescribedModel>,
  settings: Pick<JobConfig, 'image' | 'inputAlreadyBatched' | 'inputs' | 'outputs'>,
): Pick<ModelFacts, 'inputs' | 'outputs'> {
  if ('unavailable' in described) return { inputs: described, outputs: described };
  const { inputs, outputs, names = { columns: {}, labels: {} } } = described;
  const placed = withInputAxes(inputs, axesOf(settings).batchAxes);
  return { inputs: inputFacts(placed, names, settings), outputs: outputFacts(outputs, names) };
}

async function batchingOf(place: VersionPlace | undefined): Promise<ModelFacts['batching']> {
  const found = await part(async () => (place ? versionsOf(place) : { unavailable: NO_BUCKET }));
  if ('unavailable' in found) return found;
  const why = found.versions.find(({ serves }) => serves)?.batching;
  return why === undefined ? { unavailable: 'The version that serves has no manifest.' } : { why };
}

async function timers({ service, send }: RemoteOptions): Promise<TimerFacts> {
  const url = `${service.http}/metrics`;
  const headers = { accept: 'application/json' };
  const { body } = await request(url, { headers }, ASK_MS, undefined, send);
  const measured = (body as TimerReport[]).filter(({ count }) => count > 0);
  return {
    timers: measured.map(({ name, count, mean, median, _99thPercentile: p99 }) => ({
      name,
      count,
      mean,
      median,
      p99,
    })),
    why: NO_HISTORY,
  };
}
