/**
 * Computes every value that serverless.yml and infra/stack/ read, from config.yaml and the parameters of the deployment.
 * Each job gets a stack of its own, with a name within the limits of AWS.
 */
import { existsSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { type ConfigReading, readConfig } from '../../lib/config/file.ts';
import {
  DEFAULT_JOB,
  hasFileJobs,
  hasTargets,
  type JobConfig,
  predictTimeoutSeconds,
  trialsSeconds,
  visibilityTimeoutSeconds,
} from '../../lib/config/job.ts';

import { hasBudget } from '../../lib/contract/budget.ts';
import { isCapturing } from '../../lib/contract/capture.ts';
import { asError, ServingError } from '../../lib/contract/errors.ts';
import {
  capturesPrefix,
  deadLetterPrefix,
  largeResultPrefix,
  modelPrefix,
  payloadPrefix,
  uploadPrefix,
} from '../../lib/contract/names.ts';
import { corsRules } from '../../lib/http/cors.ts';
import { MOST_DELIVERIES } from '../../lib/pipeline/dead-letters.ts';
import { assertStage, queueName, serviceName } from '../../lib/queue/names.ts';
import { deployedLanguage, deployedNotes, deployedSettings } from '../../lib/workers/deployment.ts';
import type { Network } from '../account/deployed-stack.ts';
import { bucketCors, bucketRules } from './bucket-rules.ts';
import { budgetProblems, budgetSettings } from './budget.ts';
import { jobProblems, readDeployment } from './contradictions.ts';
import type { Conventions } from './conventions.ts';
import { bucketEventSettings, fileJobSettings } from './file-jobs.ts';
import { absentFunctions, filesOf } from './files.ts';
import { fullMonitoring, type Monitoring } from './monitoring.ts';
import { notifyProblems, notifySettings } from './notify.ts';
import { type Deployment, PARAMETER_NAMES, type Parameters, unknownParameters } from './parameters.ts';
import { queueSettings } from './record-queues.ts';
import { type SettingsOfResources, settingsOfResources } from './resources.ts';
import { trialSettings } from './trials.ts';
import type { MonitoringRequest } from './watched.ts';
import { type WorkerCode, workerCode } from './worker-code.ts';

export { PARAMETER_NAMES, type Parameters, serviceName };

export interface Request {
  readonly stage: string;
  /** File of the job's settings, relative to the project. Default: "config.yaml" when there is one. */
  readonly config: string | undefined;
  readonly parameters: Parameters;
  /** Names after `--param` on the command line. Default none. */
  readonly named?: readonly string[];
  /** The time in the name of a last snapshot, which must be new each time. Default: the clock. */
  readonly now?: Date;
}

/** The settings that serverless.yml and infra/stack read as ${self:custom.settings.<name>}. */
export interface Settings
  extends SettingsOfResources,
    WorkerCode,
    ReturnType<typeof settingsOfJob>,
    ReturnType<typeof queueSettings>,
    ReturnType<typeof notifySettings>,
    ReturnType<typeof trialSettings>,
    ReturnType<typeof fileJobSettings>,
    ReturnType<typeof bucketEventSettings>,
    ReturnType<typeof budgetSettings>,
    Omit<Deployment, keyof SettingsOfResources | 'monitoring' | 'tags'> {
  /** The tags of every resource. */
  readonly tags: Readonly<Record<string, string>>;
  /** Applied to the template by infra/plugin.mjs. */
  readonly conventions: Conventions;
  /** JSON for CLUSTER_SERVING_CONFIG. */
  readonly job: string;
  /** The properties that a deployment compares with the deployed stack. */
  readonly network: Network | undefined;
  /** 80 % of redisMaxGB. */
  readonly redisAlarmBytes: number;
  /** Added to the template. */
  readonly monitoring: Monitoring;
  /** The alternative to use for a part of the stack: infra/stack/<part>/<value>.yml. */
  readonly files: ReturnType<typeof filesOf>;
  /** Functions of serverless.yml that this stack does not have. */
  readonly absentFunctions: readonly string[];
}

// Lambda accepts 4 KB of environment variables; all other variables need less than 1 KB.
/** The settings of a job as JSON. The deployment is refused with `bad_config`. */
const MAX_JOB_BYTES = 3 * 1024;

/** @param root the folder with serverless.yml. @throws bad_config with every problem, one a line */
export function readSettings(
  root: string,
  { stage, config, parameters, named = [], now = new Date() }: Request,
): Settings {
  const { job } = readJobConfig(root, config);
  const problems = unknownParameters(named);
  const deployment = readDeployment(parameters, problems);
  problems.push(...budgetProblems(job, deployment), ...stageProblems(job, stage));
  problems.push(...jobProblems(deployment, job));
  const deployed = deployedJob(job, problems);
  const language = deployedLanguage(job.worker, dirname(configPath(root, config)), problems);
  if (deployment.workerImage !== '' && language !== 'python')
    problems.push('param workerImage belongs to a job with a worker in Python, and this job has none');
  if (problems.length > 0) throw new ServingError('bad_config', problems.join('\n'));
  const service = serviceName(job.jobName);
  const queue = queueName(job.jobName, stage);
  const budget = budgetSettings(job, deployment);
  const { eventSources } = budget;
  const names = { service, stage, jobName: job.jobName, job: deployed, now };
  const resources = settingsOfResources(deployment, {
    ...names,
    takesFileJobs: hasFileJobs(job),
    eventSources,
  });
  const code = workerCode(deployment, { service, stage, language });
  return {
    ...deployment,
    ...settingsOfJob(job),
    ...resources,
    ...code,
    job: deployed,
    tags: tagsOf(deployment),
    conventions: conventionsOf(deployment),
    network: networkOf(deployment, resources),
    redisAlarmBytes: Math.round(
      deployment.redisMaxGB * 2 ** 30 * (deployment.redis === 'public' ? 0.6 : 0.8),
    ),
    ...queueSettings(job, stage),
    ...notifySettings(job, queue),
    ...trialSettings(job, [
      code.code.predict.name,
      code.code.batch.name,
      ...['predictions', 'status', 'dead-letter'].map((name) => `${service}-${stage}-${name}`),
      ...(job.release.trials ? [`${service}-${stage}-trials`] : []),
    ]),
    ...fileJobSettings(job, queue),
    ...bucketEventSettings(job),
    ...budget,
    absentFunctions: absentFunctions(job),
    files: filesOf(deployment, job),
    monitoring: monitoringOf(deployment, job, {
      service,
      stage,
      batchName: code.code.batch.name,
      alarmActions: resources.alarmActions,
    }),
  };
}

function stageProblems(job: JobConfig, stage: string): string[] {
  try {
    assertStage(stage);
    return notifyProblems(job, queueName(job.jobName, stage));
  } catch (error) {
    return [asError(error).message];
  }
}

function tagsOf({ tags }: Deployment): Readonly<Record<string, string>> {
  return Object.fromEntries(
    tags.map((tag) => [tag.slice(0, tag.indexOf('=')), tag.slice(tag.indexOf('=') + 1)]),
  );
}

function conventionsOf({ pollers, ...deployment }: Deployment): Conventions {
  const { permissionsBoundary, rolePath, kmsKey, logPrefix } = deployment;
  const numbers = pollers === '' ? [] : pollers.split('-').map(Number);
  return { permissionsBoundary, rolePath, kmsKey, logPrefix, pollers: numbers };
}

function networkOf({ redis }: Deployment, { vpcId, subnetIds, zones }: SettingsOfResources) {
  return redis === 'node' || redis === 'serverless' ? { redis, vpcId, subnetIds, zones } : undefined;
}

function monitoringOf(
  deployment: Deployment,
  job: JobConfig,
  names: Pick<MonitoringRequest, 'service' | 'stage' | 'batchName' | 'alarmActions'>,
): Monitoring {
  if (deployment.monitoring === 'basic') return { Resources: {} };
  return fullMonitoring({
    ...names,
    jobName: job.jobName,
    timeoutSeconds: job.function.timeoutSeconds,
    predictTimeoutSeconds: predictTimeoutSeconds(job),
    hasTargets: hasTargets(job),
    trialsSeconds: job.release.trials ? trialsSeconds(job) : 0,
    hasFileJobs: hasFileJobs(job),
    hasBudget: hasBudget(job.budget),
    redisNodes: deployment.redis === 'node' ? deployment.redisNodes : 0,
    redisNodeType: deployment.redisNodeType,
  });
}

function settingsOfJob(job: JobConfig) {
  return {
    ...job.queue,
    ...job.function,
    jobName: job.jobName,
    visibilityTimeoutSeconds: visibilityTimeoutSeconds(job),
    mostDeliveries: MOST_DELIVERIES,
    predictTimeoutSeconds: predictTimeoutSeconds(job),
    modelPrefix: modelPrefix(job.jobName),
    deadLetterPrefix: deadLetterPrefix(job.jobName),
    payloadPrefix: payloadPrefix(job.jobName),
    uploadPrefix: uploadPrefix(job.jobName),
    capturesPrefix: capturesPrefix(job.jobName),
    largeResultPrefix: largeResultPrefix(job.jobName),
    bucketRules: bucketRules(job),
    bucketCors: bucketCors(job),
    // For osls: false allows no origin.
    cors: corsRules(job.http.corsOrigins) ?? (false as const),
  };
}

/** Name of the stack, without the stage. @throws bad_config */
export function readService(root: string, config: string | undefined): string {
  return serviceName(readJobConfig(root, config).job.jobName);
}

/** Without config.yaml all settings are the defaults; a file that was named must exist. */
export function readJobConfig(root: string, config: string | undefined): ConfigReading {
  const path = configPath(root, config);
  if (config === undefined && !existsSync(path)) return { job: DEFAULT_JOB, notes: [] };
  const { job, notes } = readConfig(path);
  return { job, notes: [...notes, ...deployedNotes(job.worker, DEFAULT_JOB.worker, dirname(path))] };
}

export function configPath(root: string, config: string | undefined): string {
  return resolve(root, config ?? 'config.yaml');
}

/** Without `modelPath`, `import` and `release`, which Lambda does not need: they are about files of this machine. */
function deployedJob(config: JobConfig, problems: string[]): string {
  const {
    modelPath: _here,
    import: _made,
    release: _gate,
    jobs: _,
    worker,
    notify,
    capture,
    budget,
    ...job
  } = config;
  const deployed = deployedSettings(worker, DEFAULT_JOB.worker, problems);
  const parts = {
    ...(hasTargets(config) && { notify }),
    ...(isCapturing(capture) && { capture }),
    ...(hasBudget(budget) && { budget }),
  };
  const text = JSON.stringify({ ...job, ...parts, worker: deployed });
  const bytes = Buffer.byteLength(text);
  if (bytes > MAX_JOB_BYTES) {
    problems.push(`the job's settings are ${bytes} bytes as JSON, over the limit of ${MAX_JOB_BYTES}`);
  }
  return text;
}
