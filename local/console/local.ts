/** The console of the single machine, which is in the process of the service. */
import type { Example, ModelFacts, Part } from '../../console/api.ts';
import { accept, sqsClient } from '../../lib/compose/accept.ts';
import { model as modelPart } from '../../lib/compose/model.ts';
import { connection, results } from '../../lib/compose/results.ts';
import { modelLocation, s3Client } from '../../lib/compose/s3.ts';
import type { Scope } from '../../lib/compose/scope.ts';
import { recordStates } from '../../lib/compose/states.ts';
import { openReplacer } from '../../lib/compose/store.ts';
import { hasTargets } from '../../lib/config/job.ts';
import { isCapturing } from '../../lib/contract/capture.ts';
import type { Model } from '../../lib/contract/values.ts';
import type { Verification } from '../../lib/contract/verification.ts';
import { verificationNotes } from '../../lib/contract/verification-text.ts';
import type { RecentRecords } from '../../lib/observe/recent.ts';
import { parseFilter } from '../../lib/pipeline/answer/postprocess.ts';
import { type SentRecord, sendAnnounced, submit } from '../../lib/pipeline/submit.ts';
import { CaptureReader } from '../../lib/s3/capture-reader.ts';
import { DeadLetters } from '../../lib/s3/dead-letters.ts';
import type { ImportReport } from '../../onnx-import/index.ts';
import { answeredInstance } from '../description/routes.ts';
import { installation } from '../machine/installation.ts';
import type { ServiceStatistics } from '../worker/statistics.ts';
import { captureFacts } from './captures.ts';
import { exampleOfVersion } from './example.ts';
import { JobPlace } from './job-place.ts';
import { cancelJob, jobList } from './jobs.ts';
import { furtherModels, inputFacts, outputFacts, sharing } from './model.ts';
import { Notices } from './notices.ts';
import type { ReplayPlace } from './replay.ts';
import type { ConsoleSource } from './source.ts';
import {
  activateVersion,
  deadLetterPage,
  editableLetter,
  editOne,
  NO_TARGETS,
  noticeFacts,
  replayOne,
  resumeTarget,
  versionsOf,
} from './stored.ts';
import { endVersion, promoteVersion } from './trial.ts';

/** The model or worker that serves, since the start. */
export interface ServedFacts {
  /** The version of the model. */
  readonly model: string;
  /** Notes about the import and the verification of the model. */
  readonly modelNotes: readonly string[];
  readonly verification: Verification | undefined;
  /** The import report of the version, if it was imported. */
  readonly importReport?: ImportReport | undefined;
}

export interface LocalConsoleOptions {
  readonly scope: Scope;
  /** The runner of the job's records. */
  readonly model: Model;
  readonly served: ServedFacts;
  readonly statistics: ServiceStatistics;
  readonly recent: RecentRecords;
  /** True if callers need a token. */
  readonly hasToken: boolean;
}

const ANY_JSON = 'A worker takes and returns any JSON value.';
const NO_VERSIONS = 'A worker runs from its folder, and is started again when that changes.';

export function localConsole(options: LocalConsoleOptions): ConsoleSource {
  const { scope, model, recent } = options;
  const { job, bucket } = scope.environment;
  const [s3, location] = [scope.get(s3Client), scope.get(modelLocation)];
  const settings = { job: job.jobName, ttlSeconds: job.resultTtlSeconds, now: Date.now };
  const place: ReplayPlace = {
    job,
    s3,
    bucket,
    deadLetters: new DeadLetters(s3, bucket, job.jobName),
    results: openReplacer(scope.get(connection), settings),
  };
  const { notifyQueueUrl: queueUrl, notifyDeadLetterUrl: deadLetterUrl } = scope.environment;
  const notices = () =>
    new Notices({ sqs: scope.get(sqsClient), s3, job: job.jobName, bucket, queueUrl, deadLetterUrl });
  const jobs = new JobPlace(s3, bucket, job.jobName, true);
  const isWorker = job.worker.class !== undefined;
  const limitMs = job.function.timeoutSeconds * 1000;
  return {
    model: () => modelFacts(options),
    example: async () => (isWorker ? { unavailable: ANY_JSON } : exampleFor(options)),
    live: async () => options.statistics.live(),
    records: async () => ({ records: recent.list() }),
    deadLetters: (after) => deadLetterPage(place, after),
    versions: async () => (isWorker ? { unavailable: NO_VERSIONS } : versionsOf({ s3, location, job })),
    editable: (id) => editableLetter(place, id),
    edit: (id, payload) => editOne(place, id, payload, (record) => enqueue(scope, record)),
    notices: async () => (hasTargets(job) ? noticeFacts(notices()) : { unavailable: NO_TARGETS }),
    captures: async () => {
      const lost = await scope.get(results).lostCaptures();
      return captureFacts(
        new CaptureReader(s3, bucket, { job: job.jobName }),
        lost,
        isCapturing(job.capture),
      );
    },
    jobs: () => jobList(jobs),
    cancel: (id) => cancelJob(jobs, id),
    resume: (target) => resumeTarget(notices(), target),
    replay: (id) =>
      model.use((runner) =>
        replayOne(
          place,
          {
            version: runner.version,
            // It may be what ended its process before.
            run: async (records) => (await runner.runIsolated?.(records, limitMs)) ?? runner.run(records),
          },
          id,
          (replaced) => recent.replace(replaced, runner.version),
        ),
      ),
    activate: (version) => activateVersion({ s3, location, job }, version),
    promote: (version) => promoteVersion({ s3, location, job }, version),
    end: (version) => endVersion({ s3, location, job }, version),
  };
}

/** As POST /predictions does. @throws queue_unavailable, results_unavailable */
function enqueue(scope: Scope, record: SentRecord): Promise<void> {
  const { queue, payloads } = accept(scope);
  return sendAnnounced(scope.get(recordStates), [record], (one) =>
    submit(queue(one.priority), payloads, one),
  );
}

async function modelFacts({ scope, model, served, hasToken }: LocalConsoleOptions): Promise<ModelFacts> {
  const { job, bucket } = scope.environment;
  const common = {
    job: job.jobName,
    release: installation().version,
    filter: job.postProcessing,
    caller: { auth: hasToken ? 'token' : 'none' },
  } as const;
  if (job.worker.class !== undefined) {
    const unavailable = ANY_JSON;
    return {
      ...common,
      kind: 'worker',
      worker: job.worker.class,
      version: await model.use(async ({ version }) => version),
      inputs: { unavailable },
      outputs: { unavailable },
      batching: { why: `a worker gets up to ${job.batchSize} items at once` },
      notes: [],
      report: { unavailable: 'A worker is not imported.' },
    };
  }
  return scope.get(modelPart).use(async ({ version, inputs, outputs, names, image, separable }) => {
    // The facts about the version of this start are not true of another one.
    const isFirst = version === served.model;
    const why = isFirst ? verificationNotes(served.verification, job.batching)[0] : undefined;
    return {
      ...common,
      kind: 'model',
      version,
      inputs: inputFacts(inputs, names, { ...job, image }),
      outputs: outputFacts(outputs, names),
      batching: { why: why ?? sharing(separable) },
      notes: isFirst ? served.modelNotes : [],
      report: await reportOf(served.importReport, isFirst),
      further: await furtherModels(scope.get(s3Client), bucket, job.jobName),
    };
  });
}

async function exampleFor({ scope, model, served }: LocalConsoleOptions): Promise<Part<Example>> {
  const { postProcessing, inputAlreadyBatched } = scope.environment.job;
  const place = { s3: scope.get(s3Client), location: scope.get(modelLocation) };
  return model.use((runner) =>
    exampleOfVersion(place, runner.version, async () => {
      // Only the version that this start served has this sample.
      const sample = runner.version === served.model ? served.importReport?.sample?.body : undefined;
      if (sample !== undefined) return sample;
      const settings = { filter: parseFilter(postProcessing), inputAlreadyBatched };
      const instance = await answeredInstance(runner, settings);
      return instance && JSON.stringify({ instances: [instance] });
    }),
  );
}

async function reportOf(
  report: ServedFacts['importReport'],
  isFirst: boolean,
): Promise<ModelFacts['report']> {
  if (!isFirst)
    return {
      unavailable:
        'The version that serves was chosen after the start; its import report is where it was imported.',
    };
  if (!report) return { unavailable: 'The model is ONNX already, and was served as it is.' };
  // Loaded on demand, because a start needs no converter.
  const { importReportText } = await import('../../onnx-import/index.ts');
  const { SERVICE } = await import('../../release/service-words.ts');
  return { text: importReportText(report, SERVICE) };
}
