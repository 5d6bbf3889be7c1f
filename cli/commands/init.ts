/**
 * `cluster-serving init` writes a config.yaml with every key, its meaning and its default, or, with --deploy, the
 * serverless.yml of a deployment from this folder. Every setting is commented out, so that the file never contradicts a
 * later version's defaults; the sections are not, so that uncommenting one line is enough.
 */
import { writeFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import { DEFAULT_JOB, type JobConfig } from '../../lib/config/job.ts';
import { ServingError } from '../../lib/contract/errors.ts';
import { defineCommand, wrongUse } from '../command.ts';
import { deploymentText } from '../deployment.ts';
import { EXIT, type Output } from '../output.ts';

const CONFIG = 'config.yaml';
const DEPLOYMENT = 'serverless.yml';

export const command = defineCommand({
  name: 'init',
  about: `Writes a config.yaml with every setting, its meaning and its default, all commented out. With --deploy it writes a
serverless.yml instead: then \`npx serverless deploy\` in this folder deploys to AWS what its config.yaml says.`,
  options: {
    config: { short: 'c', value: 'file', about: `file to write (default ${CONFIG})` },
    deploy: { about: 'write serverless.yml, and no config.yaml' },
    force: { about: 'replace an existing file' },
  },
  async run({ config, deploy = false, force = false }, output) {
    if (!deploy) return writeConfig(config ?? CONFIG, force, output);
    if (config !== undefined)
      throw wrongUse(`init --deploy writes ${DEPLOYMENT}; serverless takes \`--param config=${config}\``);
    return writeDeployment(force, output);
  },
});

async function writeConfig(file: string, force: boolean, output: Output): Promise<number> {
  const config = await write(file, configText(), force);
  output.answer(
    { config },
    `wrote ${file}; put your *.onnx into ${DEFAULT_JOB.modelPath}/ beside it, then: cluster-serving start -c ${file}`,
  );
  return EXIT.ok;
}

async function writeDeployment(force: boolean, output: Output): Promise<number> {
  const serverless = await write(DEPLOYMENT, await deploymentText(process.cwd()), force);
  output.answer(
    { serverless },
    `wrote ${DEPLOYMENT}; next: npx serverless package, which needs no AWS account, then npx serverless deploy`,
  );
  return EXIT.ok;
}

/** @returns the absolute path */
async function write(file: string, text: string, force: boolean): Promise<string> {
  const path = resolve(file);
  try {
    await writeFile(path, text, { flag: force ? 'w' : 'wx' });
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    const why = code === 'EEXIST' ? 'is there already; --force replaces it' : `cannot be written: ${message}`;
    throw new ServingError('bad_config', `${file} ${why}`, { cause: error });
  }
  return path;
}

/** Values come from the defaults themselves; a test holds that no key is missing. */
export function configText(): string {
  const { queue, function: lambda, http } = DEFAULT_JOB;
  const sections = [
    jobText(DEFAULT_JOB),
    IMAGE,
    IMPORT,
    queueText(queue),
    functionText(lambda),
    httpText(http),
  ];
  return sections.join('\n');
}

function jobText(job: JobConfig): string {
  return `# Settings of one job. Every line is a default: uncomment what you want to change.
# Unknown keys are refused, with the one that was probably meant.

# Folder with one *.onnx, relative to this file.
# modelPath: ${job.modelPath}

# Names the queue, the results and the model: 1 to 60 letters, digits, "-" or "_".
# jobName: ${job.jobName}

# Filter of the results: topN(n), the n largest values, or pickTopN(n), the first n rows. Default: none.
# postProcessing: topN(5)

# Pictures are scaled to this: height,width in pixels. Default: the model's own size, where it is fixed.
# imageResize: 224,224

# Records carry the batch dimension.
# inputAlreadyBatched: ${job.inputAlreadyBatched}

# Most rows of one run of the model.
# batchSize: ${job.batchSize}

# Threads of one run; 0 is one per vCPU.
# threadPerModel: ${job.threadPerModel}

# How often to look for a new model.
# modelRefreshSeconds: ${job.modelRefreshSeconds}

# How long a result stays.
# resultTtlSeconds: ${job.resultTtlSeconds}
`;
}

const IMAGE = `# How a picture becomes a tensor: value = (pixel x scale - mean) / std, pixels from 0 to 255.
image:
  # Target size in pixels, as imageResize; both or none.
  # width: 224
  # height: 224
  # bgr, rgb or grey. Default: bgr; grey for a model with one channel.
  # channels: bgr
  # chw or hwc. Default: read off the model's input, else chw.
  # layout: chw
  # scale: 1
  # One number, or one per channel: [103.9, 116.8, 123.7].
  # mean: 0
  # std: 1
`;

const IMPORT = `# How a model that is no ONNX becomes one (docs/how-to/import-a-model.md). Default: as its own files say.
import:
  # Names of the inputs, or shapes by name; a word is a free size.
  # inputs: {data: [N, 3, 224, 224]}
  # Names of the outputs.
  # outputs: [prob]
  # Inputs to replace by a number.
  # constants: {keep_prob: 1}
  # Of a SavedModel. Default: serving_default, serve.
  # signature: serving_default
  # tags: [serve]
`;

function queueText(queue: JobConfig['queue']): string {
  return `# The SQS queue and the functions that read it.
queue:
  # Records of one batch event; above 10 needs windowSeconds of 1 or more.
  # batchSize: ${queue.batchSize}
  # How long SQS gathers a batch, 0 to 300.
  # windowSeconds: ${queue.windowSeconds}
  # Batch functions at the same time, 2 to 1,000.
  # maximumConcurrency: ${queue.maximumConcurrency}
  # Deliveries before a record goes to the dead letters.
  # maxReceiveCount: ${queue.maxReceiveCount}
`;
}

function functionText(lambda: JobConfig['function']): string {
  return `# The Lambda functions.
function:
  # 1769 is one vCPU.
  # memoryMB: ${lambda.memoryMB}
  # Of the batch function, 3 to 900.
  # timeoutSeconds: ${lambda.timeoutSeconds}
`;
}

function httpText(http: JobConfig['http']): string {
  return `# The HTTPS API.
http:
  # true: more than tokensPerSecond requests to POST /predict are answered with 429.
  # tokenBucketEnabled: ${http.tokenBucketEnabled}
  # tokensPerSecond: ${http.tokensPerSecond}
  # How long a request waits for its turn.
  # tokenAcquireTimeoutMs: ${http.tokenAcquireTimeoutMs}
  # How long POST /predict may take, at most 29000. Default: function.timeoutSeconds, at most 29 s.
  # timeoutMs: 29000
  # Web pages that may call from a browser: ["https://example.com"], or "*" for all.
  # corsOrigins: ${JSON.stringify(http.corsOrigins)}
`;
}
