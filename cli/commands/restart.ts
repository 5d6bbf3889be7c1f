/**
 * `cluster-serving restart`. Options that are not given stay as at the previous start, including the config's path,
 * even if that service was stopped, has crashed or failed to start.
 */
import { asError, ServingError } from '../../lib/contract/errors.ts';
import { modelPrefix } from '../../lib/contract/names.ts';
import { getText, type S3Client } from '../../lib/s3/objects.ts';
import { type AccessValues, TOKEN_OPTIONS } from '../../local/machine/access.ts';
import {
  findRunning,
  lastOptions,
  type StackRecord,
  type StartedWith,
} from '../../local/service/data-folder.ts';
import { modelHere, type ServedModel, servedModel } from '../../local/service/model.ts';
import { publishOwn } from '../../local/service/publish.ts';
import { readSettings, type StartSettings } from '../../local/service/start-options.ts';
import { defineCommand } from '../command.ts';
import { EXIT, type Output } from '../output.ts';
import { dataDirOf } from '../service.ts';
import { START_OPTIONS, startAndReport } from './start.ts';
import { STOP_TIMEOUT, stopService } from './stop.ts';

/** For the first answer of the running service's S3. */
const ANSWER_MS = 5_000;

export const command = defineCommand({
  name: 'restart',
  about: `Stops the service of a data folder, if one runs, and starts it in the background with the options of the
previous start; options given here replace them. Ports that were 0 are chosen again.`,
  options: START_OPTIONS,
  async run({ timeout, ...values }, output) {
    const dataDir = dataDirOf(values);
    const before = await lastOptions(dataDir);
    const running = await findRunning(dataDir);
    if (running && !running.record) {
      // Its options are saved when it is ready; an earlier restart would use others.
      const message = `process ${running.process.pid} is still starting, or stopping; try again, or stop it and start it`;
      output.failure(new ServingError('model_unavailable', message));
      return EXIT.notReady;
    }
    // Before the stop, so that a broken config or a model that may not serve does not end the running service.
    const settings = readSettings({ ...keptOptions(before, values), ...values });
    await tryModels(settings, running?.record, output);
    const stopped = await stopService(dataDir, STOP_TIMEOUT.default * 1000, output);
    if (stopped) output.note(`stopped process ${stopped.pid}`);
    return startAndReport(settings, timeout * 1000, output);
  },
});

/** Imports the models, and asks of them in the running service what their start is going to ask. @throws bad_model, bad_config */
async function tryModels(
  { jobs, dataDir }: StartSettings,
  running: StackRecord | undefined,
  output: Output,
): Promise<void> {
  const { bucket, environment = {} } = running ?? {};
  const s3 = bucket === undefined ? undefined : await openLocalS3(environment);
  try {
    const away = s3 && bucket !== undefined ? await whyAway(s3, bucket) : undefined;
    for (const served of jobs) {
      const { job } = served;
      const modelDirectory = await modelHere(job, served.modelDirectory, dataDir);
      if (job.worker.class !== undefined) continue;
      const model = await servedModel(job, modelDirectory, dataDir);
      if (s3 === undefined || bucket === undefined) continue;
      // Who restarts a service that hangs wants just that.
      if (away) output.note(`job ${job.jobName}: its models were not tried before the stop: ${away}`);
      else await tryIn({ s3, bucket }, { ...served, model }, dataDir);
    }
  } finally {
    s3?.destroy();
  }
}

/** @returns undefined where S3 answers */
function whyAway(s3: S3Client, bucket: string): Promise<string | undefined> {
  const read = getText(s3, { bucket, key: 'answers' }, { limitMs: ANSWER_MS });
  return read.then(
    () => undefined,
    (error: unknown) => asError(error).message,
  );
}

async function tryIn(
  { s3, bucket }: { readonly s3: S3Client; readonly bucket: string },
  served: StartSettings['jobs'][number] & { readonly model: ServedModel },
  dataDir: string,
): Promise<void> {
  const location = { bucket, prefix: modelPrefix(served.job.jobName) };
  await publishOwn(served, {}, { s3, location }, false);
  if (served.modelsDirectory === undefined) return;
  const { publishNamed } = await import('../../local/service/named.ts');
  await publishNamed(served.modelsDirectory, { ...served, dataDir }, { s3, bucket }, false);
}

/** With the key of the service alone: what starts next inherits the environment, where the user's own account is. */
async function openLocalS3({
  AWS_ENDPOINT_URL: endpoint,
  AWS_REGION: region,
  AWS_ACCESS_KEY_ID: accessKeyId,
  AWS_SECRET_ACCESS_KEY: secretAccessKey,
}: StackRecord['environment']) {
  if (endpoint === undefined || accessKeyId === undefined || secretAccessKey === undefined) return undefined;
  const { openS3 } = await import('../../lib/s3/client.ts');
  return openS3({ endpoint, region, credentials: { accessKeyId, secretAccessKey } });
}

/**
 * The options of the previous start. A token that is given replaces that none was wanted, and the other way round. That golden
 * requests were dropped once must not drop later ones.
 */
function keptOptions(before: StartedWith = {}, values: AccessValues) {
  const isReplaced = TOKEN_OPTIONS.some((option) => values[option] !== undefined);
  const dropped: readonly string[] = ['drop-golden', ...(isReplaced ? TOKEN_OPTIONS : [])];
  return Object.fromEntries(Object.entries(before).filter(([name]) => !dropped.includes(name)));
}
