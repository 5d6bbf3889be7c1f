/**
 * Checks settings against each other and finds those without effect. AWS would refuse most invalid combinations too,
 * but minutes into a deployment and less clearly.
 */
import { isCapturing } from '../contract/capture.ts';
import { type JobConfig, predictTimeoutSeconds } from './job.ts';
import { isInHub } from './model-path.ts';

export interface Finding {
  /** Path of the setting, e.g. `queue.batchSize`. */
  readonly path: string;
  readonly text: string;
}

/** SQS's own limit for a batch without a window. */
const MAX_UNGATHERED = 10;
/** Lambda's. */
const MB_PER_VCPU = 1_769;

export function brokenRules(job: JobConfig, isSet: (path: string) => boolean): Finding[] {
  const { queue, image, http, capture } = job;
  const findings: Finding[] = [];
  const rule = (holds: boolean, path: string, text: string) => {
    if (!holds) findings.push({ path, text });
  };
  rule(
    queue.batchSize <= MAX_UNGATHERED || queue.windowSeconds >= 1,
    'queue.batchSize',
    `${queue.batchSize} needs queue.windowSeconds >= 1 (SQS gathers more than ${MAX_UNGATHERED} only in a window)`,
  );
  rule(
    queue.recordTtlSeconds <= queue.retentionSeconds,
    'queue.recordTtlSeconds',
    `${queue.recordTtlSeconds} is over queue.retentionSeconds ${queue.retentionSeconds}, after which SQS deletes the record without an outcome`,
  );
  rule(
    queue.highShare === 0 || queue.maximumConcurrency >= 4,
    'queue.maximumConcurrency',
    `${queue.maximumConcurrency} cannot be shared by queue.highShare ${queue.highShare}: two queues need 4, because Lambda gives no queue less than 2`,
  );
  rule(
    job.worker.class === undefined || !isInHub(job.modelPath),
    'modelPath',
    'of the hub only what an import needs is copied, so a worker downloads its own files, with snapshot_download of huggingface_hub',
  );
  rule(
    (image.width === undefined) === (image.height === undefined),
    image.width === undefined ? 'image.height' : 'image.width',
    'image.width and image.height go together',
  );
  for (const path of ['mean', 'std'] as const) {
    const isOneTooFew = image.channels === 'grey' && image[path]?.length === 3;
    const [at, what] = isSet(`image.${path}`) ? [`image.${path}`, ''] : ['image.preset', `its ${path}: `];
    rule(!isOneTooFew, at, `${what}3 numbers do not fit image.channels: grey; expected one`);
  }
  const predictMs = predictTimeoutSeconds(job) * 1000;
  rule(
    !http.tokenBucketEnabled || http.tokenAcquireTimeoutMs < predictMs,
    'http.tokenAcquireTimeoutMs',
    `${http.tokenAcquireTimeoutMs} ms of waiting leave nothing of the ${predictMs} ms that POST /predict may take`,
  );
  const both = capture.include.find((name) => capture.leaveOut.includes(name));
  rule(both === undefined, 'capture.leaveOut', `${both} is in capture.include, too; keep one`);
  rule(
    http.corsOrigins.length < 2 || !http.corsOrigins.includes('*'),
    'http.corsOrigins',
    '"*" is every origin; take the others out',
  );
  return findings;
}

/** Allowed but probably unintended settings: those without effect, threads without a vCPU. */
export function advice(job: JobConfig, isSet: (path: string) => boolean): Finding[] {
  const tokens = ['http.tokensPerSecond', 'http.tokenAcquireTimeoutMs']
    .filter((path) => isSet(path) && !job.http.tokenBucketEnabled)
    .map((path) => ({ path, text: 'no effect without http.tokenBucketEnabled: true' }));
  if (isCapturing(job.capture) && job.worker.class !== undefined)
    tokens.push({
      path: 'capture.share',
      text: 'no effect with a worker: only what a model answers is captured',
    });
  if (job.release.trials && job.worker.class !== undefined)
    tokens.push({ path: 'release.trials', text: 'no effect with a worker, whose versions are not tried' });
  const { perDay, perMonth } = job.budget;
  if (perMonth > 0 && perDay > perMonth)
    tokens.push({ path: 'budget.perDay', text: `no effect: it is over budget.perMonth ${perMonth}` });
  const vCpus = job.function.memoryMB / MB_PER_VCPU;
  if (job.threadPerModel <= Math.max(1, Math.ceil(vCpus))) return tokens;
  const text =
    `${job.threadPerModel} threads, but function.memoryMB ${job.function.memoryMB} is ${vCpus.toFixed(1)} vCPUs ` +
    `in Lambda; more threads than vCPUs cost latency`;
  return [...tokens, { path: 'threadPerModel', text }];
}
