/**
 * `npm start`. In: command line options. Out: the service on this machine, after it has shown that it works.
 * Trap: "ready" is the last word of the start and is never said before a request would be answered.
 */
import { existsSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { readConfigFile } from '../lib/config/file.ts';
import type { JobConfig } from '../lib/config/job.ts';
import { ServingError } from '../lib/errors.ts';
import type { LocalLog } from './aws-lambda.ts';
import { runSample, sampleTable } from './sample.ts';
import { type Stack, startStack } from './stack.ts';

const SAMPLE = fileURLToPath(new URL('../examples/digits', import.meta.url));
const SAMPLE_CONFIG = resolve(SAMPLE, 'config.yaml');

const USAGE = `Usage: npm start -- [options]

Starts the whole service on this machine. Without a config.yaml of your own it serves the digits sample.

  -c, --config <file>     config.yaml to use (default: ./config.yaml if there is one, else the sample's)
      --once              run the sample through both paths and exit
      --port <n>          HTTP port (default 10020; 0 takes free ports for everything)
      --aws-port <n>      SQS and S3 port (default 10021)
      --redis-port <n>    Redis port (default 10022)
      --data-dir <dir>    what survives a restart (default .cluster-serving)
      --embedded-redis    use the embedded Redis also where redis-server is installed
      --json              print the sample's report and the addresses as JSON
      --verbose           print what the parts do
  -h, --help              this text`;

const OPTIONS = {
  config: { type: 'string', short: 'c' },
  once: { type: 'boolean', default: false },
  port: { type: 'string', default: '10020' },
  'aws-port': { type: 'string' },
  'redis-port': { type: 'string' },
  'data-dir': { type: 'string', default: '.cluster-serving' },
  'embedded-redis': { type: 'boolean', default: false },
  json: { type: 'boolean', default: false },
  verbose: { type: 'boolean', default: false },
  help: { type: 'boolean', short: 'h', default: false },
} as const;

type Values = ReturnType<typeof parseArgs<{ options: typeof OPTIONS }>>['values'];

async function main(): Promise<number> {
  const values = readOptions();
  if (values.help) {
    console.log(USAGE);
    return 0;
  }
  const configPath = resolve(values.config ?? (existsSync('config.yaml') ? 'config.yaml' : SAMPLE_CONFIG));
  const job = readConfigFile(configPath);
  const isSample = configPath === SAMPLE_CONFIG;
  const stopped = stopSignal();
  const stack = await startStack({
    job,
    modelDirectory: resolve(dirname(configPath), job.modelPath),
    dataDir: resolve(values['data-dir']),
    ports: portsOf(values),
    preferEmbeddedRedis: values['embedded-redis'],
    log: localLog(values.verbose),
  });
  try {
    const right = await show(stack, job, values, isSample);
    if (values.once) return right ? 0 : 1;
    console.log(values.json ? JSON.stringify({ ready: stack.url }) : `ready ${localhost(stack.url)}`);
    const signal = await stopped;
    if (!values.json) console.log(`\n${signal}: stopping`);
    return 0;
  } finally {
    await stack.close();
  }
}

function readOptions(): Values {
  try {
    return parseArgs({ options: OPTIONS }).values;
  } catch (error) {
    throw new ServingError('bad_config', `${(error as Error).message}\n\n${USAGE}`);
  }
}

function portsOf(values: Values): { http: number; aws: number; redis: number } {
  const http = portOf('--port', values.port);
  const otherwise = (fallback: number) => String(http === 0 ? 0 : fallback);
  return {
    http,
    aws: portOf('--aws-port', values['aws-port'] ?? otherwise(10_021)),
    redis: portOf('--redis-port', values['redis-port'] ?? otherwise(10_022)),
  };
}

function portOf(option: string, text: string): number {
  const port = Number(text);
  if (/^\d{1,5}$/.test(text) && port <= 65_535) return port;
  throw new ServingError(
    'bad_config',
    `${option}: expected a port from 0 to 65535, got ${JSON.stringify(text)}`,
  );
}

/** Addresses, and for the sample its answers. True when all are right. */
async function show(stack: Stack, job: JobConfig, values: Values, isSample: boolean): Promise<boolean> {
  const addresses = {
    job: job.jobName,
    model: stack.modelVersion,
    http: localhost(stack.url),
    queueUrl: stack.queueUrl,
    redisUrl: stack.redisUrl,
    redis: stack.redis.kind,
    redisVersion: stack.redis.version,
    bucket: stack.bucket,
    environment: stack.aws.environment,
  };
  if (!values.json) console.log(addressText(stack, job));
  const report = isSample ? await runSample(stack, job.jobName, SAMPLE) : undefined;
  if (values.json) console.log(JSON.stringify({ ...addresses, ...(report ? { sample: report } : {}) }));
  else if (report)
    console.log(`\nThe digits sample, from POST /predict and through the queue:\n${sampleTable(report)}\n`);
  return report === undefined || report.right === report.rows.length;
}

function addressText(stack: Stack, job: JobConfig): string {
  const redis =
    stack.redis.kind === 'redis-server'
      ? `redis-server ${stack.redis.version}`
      : 'embedded, for local use only; install redis-server to use the real one';
  const environment = Object.entries(stack.aws.environment).map(([name, value]) => `export ${name}=${value}`);
  return [
    `job ${job.jobName}, model version ${stack.modelVersion}`,
    `  redis   ${stack.redisUrl} (${redis})`,
    `  queue   ${stack.queueUrl}`,
    `  bucket  s3://${stack.bucket}`,
    `  for the AWS SDK and the aws command line:`,
    ...environment.map((line) => `    ${line}`),
  ].join('\n');
}

function localhost(url: string): string {
  return url.replace('127.0.0.1', 'localhost');
}

/** Resolves at the first Ctrl-C or TERM; the second one does not wait for anything. */
function stopSignal(): Promise<NodeJS.Signals> {
  return new Promise((settle) => {
    let asked = false;
    for (const signal of ['SIGINT', 'SIGTERM'] as const) {
      process.on(signal, () => {
        if (asked) process.exit(130);
        asked = true;
        settle(signal);
      });
    }
  });
}

function localLog(verbose: boolean): LocalLog {
  const write = (message: string, fields: Readonly<Record<string, unknown>> = {}) => {
    const rest = Object.keys(fields).length > 0 ? ` ${JSON.stringify(fields)}` : '';
    process.stderr.write(`${message}${rest}\n`);
  };
  return { info: verbose ? write : () => undefined, warn: write, error: write };
}

main().then(
  (code) => process.exit(code),
  (error: unknown) => {
    const known = ServingError.from(error);
    console.error(known.code === 'internal' ? known.stack : `error: ${known.message}`);
    process.exit(known.code === 'bad_config' ? 2 : 1);
  },
);
