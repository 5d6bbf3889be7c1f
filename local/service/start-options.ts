/**
 * Validates the options of a start. Options have no defaults here, so that a restart can distinguish given ones from
 * others.
 */
import { existsSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { type ConfigReading, readConfig } from '../../lib/config/file.ts';
import { DEFAULT_JOB } from '../../lib/config/job.ts';
import { resolveModelPath } from '../../lib/config/model-path.ts';
import { badConfig } from '../../lib/contract/errors.ts';
import { type Access, type AccessValues, readAccess } from '../machine/access.ts';
import { packageFolder } from '../machine/installation.ts';
import { DEFAULT_DATA_DIR, type StartedWith } from './data-folder.ts';
import type { ServedJob } from './runs.ts';
import type { Ports } from './stack.ts';

/** Jobs of one `npm start`, each with its own environment, model and memory. The start is refused. */
const MAX_JOBS = 16;

export const START_OPTIONS = {
  config: { type: 'string', short: 'c', multiple: true },
  model: { type: 'string' },
  once: { type: 'boolean' },
  port: { type: 'string' },
  'aws-port': { type: 'string' },
  'redis-port': { type: 'string' },
  'grpc-port': { type: 'string' },
  host: { type: 'string' },
  'token-file': { type: 'string' },
  'make-token': { type: 'boolean' },
  'no-token': { type: 'boolean' },
  'allow-host': { type: 'string', multiple: true },
  'data-dir': { type: 'string' },
  'embedded-redis': { type: 'boolean' },
  watch: { type: 'boolean' },
  'drop-golden': { type: 'boolean' },
  verbose: { type: 'boolean' },
} as const;

/** In the order of interest to a user. */
export const START_OPTIONS_HELP = `\
  -c, --config <file>     config.yaml to use (default: ./config.yaml if there is one, else the sample's);
                          given again, one more job beside the first, on HTTP port +3, +4, ...
      --model <dir>           model to serve instead of the config's modelPath: a folder, s3://bucket/prefix or
                          hf://org/name@revision
      --once              run the sample through both paths and exit
      --port <n>          HTTP port (default 10020; 0 takes free ports for everything)
      --aws-port <n>      SQS and S3 port (default 10021)
      --redis-port <n>    Redis port (default 10022)
      --grpc-port <n>     also serve the Open Inference Protocol over gRPC, all jobs on this port
      --host <address>    address of the HTTP API (default 127.0.0.1); others need one of the next three
      --token-file <file> callers must send the token in this file: Authorization: Bearer <token>
      --make-token        make a token at the first start, keep it in the data folder, and print a call with it
      --no-token          everybody who reaches the address may call
      --allow-host <name> name by which clients may call, as that of a proxy; may be given again
      --data-dir <dir>    what survives a restart (default .cluster-serving)
      --embedded-redis    use the embedded Redis also where redis-server is installed
      --watch             for development: when files of a worker change, new processes take over
      --drop-golden       let a model serve without the golden requests of the version before it
      --verbose           print what the parts do`;

export interface StartValues extends AccessValues {
  readonly config?: readonly string[] | undefined;
  readonly model?: string | undefined;
  readonly once?: boolean | undefined;
  readonly port?: string | undefined;
  readonly 'aws-port'?: string | undefined;
  readonly 'redis-port'?: string | undefined;
  readonly 'grpc-port'?: string | undefined;
  readonly 'data-dir'?: string | undefined;
  readonly 'embedded-redis'?: boolean | undefined;
  readonly watch?: boolean | undefined;
  readonly 'drop-golden'?: boolean | undefined;
  readonly verbose?: boolean | undefined;
}

export interface StartSettings {
  /** Model directories are absolute, or addresses in S3. */
  readonly jobs: readonly [ServedJob, ...ServedJob[]];
  /** Notes about the configs for the user. */
  readonly notes: readonly string[];
  /** Absolute. */
  readonly dataDir: string;
  readonly ports: Ports;
  readonly access: Access;
  readonly preferEmbeddedRedis: boolean;
  readonly once: boolean;
  readonly verbose: boolean;
  /** The folder of the sample if it is served. */
  readonly sample: string | undefined;
  /** The given options with absolute paths, so that they can be repeated from any folder. */
  readonly startedWith: StartedWith;
}

/** Also reads the config files. @throws bad_config */
export function readSettings(values: StartValues): StartSettings {
  const sample = join(packageFolder(), 'examples', 'digits');
  const sampleConfig = join(sample, 'config.yaml');
  const said = [values.config ?? []].flat();
  const usual = existsSync('config.yaml') ? ['config.yaml'] : [];
  const own = said.length > 0 ? said : usual;
  const config = own.length === 0 && values.model === undefined ? [sampleConfig] : own;
  if (config.length > MAX_JOBS)
    throw badConfig(`--config: ${config.length} jobs are over the limit of ${MAX_JOBS}`);
  const configs = config.map((path) => resolve(path));
  const read = readJobs(configs, values.model);
  const dataDir = resolve(values['data-dir'] ?? DEFAULT_DATA_DIR);
  const token = values['token-file'] === undefined ? {} : { 'token-file': resolve(values['token-file']) };
  const model = values.model === undefined ? {} : { model: resolveModelPath('', values.model) };
  const paths = { ...token, ...model, config: configs, 'data-dir': dataDir };
  // A restart may repeat what another version was started with.
  const isKept = (name: string) => name !== 'once' && Object.hasOwn(START_OPTIONS, name);
  const options = Object.entries(values).filter(([name, value]) => value !== undefined && isKept(name));
  const served = read.map(({ path, job }) => ({
    job,
    modelDirectory: resolveModelPath(dirname(path), job.modelPath),
    modelsDirectory: job.models.folder && resolve(dirname(path), job.models.folder),
    directory: dirname(path),
    watch: values.watch,
    dropGolden: values['drop-golden'],
  }));
  if (values.watch && served.every(({ job }) => job.worker.class === undefined))
    throw badConfig('--watch: no job has a worker; a model is replaced by `cluster-serving model push`');
  return {
    jobs: served as [ServedJob, ...ServedJob[]],
    notes: read.flatMap(({ job, notes }) =>
      read.length === 1 ? notes : notes.map((note) => `${job.jobName}: ${note}`),
    ),
    dataDir,
    ports: portsOf(values),
    access: readAccess(values),
    preferEmbeddedRedis: values['embedded-redis'] ?? false,
    once: values.once ?? false,
    verbose: values.verbose ?? false,
    sample: configs.length === 1 && configs[0] === sampleConfig ? sample : undefined,
    startedWith: { ...(Object.fromEntries(options) as StartedWith), ...paths },
  };
}

interface ReadJob extends ConfigReading {
  /** The folder of the config, or of the one that could be there. */
  readonly path: string;
}

/** @param model served by the only job, instead of its `modelPath`; without a config under the default settings */
function readJobs(configs: readonly string[], model: string | undefined): readonly ReadJob[] {
  if (model === undefined) return configs.map((path) => ({ path, ...readConfig(path) }));
  const [config, ...others] = configs;
  if (others.length > 0) throw badConfig('--model: it is of one job, but there are several --config');
  if (model.trim() === '') throw badConfig('--model: expected a folder, s3://bucket/prefix or hf://org/name');
  const modelPath = resolveModelPath('', model);
  if (config === undefined)
    return [{ path: resolve('config.yaml'), job: { ...DEFAULT_JOB, modelPath }, notes: [] }];
  const { job, notes } = readConfig(config);
  if (job.worker.class !== undefined)
    throw badConfig('--model: the job has a worker, whose files are those of modelPath in its config');
  return [{ path: config, job: { ...job, modelPath }, notes }];
}

/** The command line with these options. */
export function startArguments(startedWith: StartedWith): string[] {
  return Object.entries(startedWith).flatMap(([name, value]) => {
    if (typeof value === 'boolean') return value ? [`--${name}`] : [];
    return [value].flat().map((text) => `--${name}=${text}`);
  });
}

function portsOf(values: StartValues): Ports {
  const http = portOf('--port', values.port ?? '10020');
  const otherwise = (fallback: number) => String(http === 0 ? 0 : fallback);
  const grpc = values['grpc-port'];
  return {
    http,
    aws: portOf('--aws-port', values['aws-port'] ?? otherwise(10_021)),
    redis: portOf('--redis-port', values['redis-port'] ?? otherwise(10_022)),
    grpc: grpc === undefined ? undefined : portOf('--grpc-port', grpc),
  };
}

function portOf(option: string, text: string): number {
  const port = Number(text);
  if (/^\d{1,5}$/.test(text) && port <= 65_535) return port;
  throw badConfig(`${option}: expected a port from 0 to 65535, got ${JSON.stringify(text)}`);
}
