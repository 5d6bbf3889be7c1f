/**
 * `wkr-serving-start`, in the foreground: the service of a single machine with a worker, from flags instead of a
 * config.
 */
import { resolve } from 'node:path';
import { readConfigText } from '../../../lib/config/file.ts';
import { DEFAULT_JOB, type JobConfig } from '../../../lib/config/job.ts';
import { badConfig, ServingError } from '../../../lib/contract/errors.ts';
import { variables } from '../../../lib/contract/variables.ts';
import { type Access, readAccess, readToken } from '../../../local/machine/access.ts';
import { isLoopback } from '../../../local/machine/hosts.ts';
import type { StartSettings } from '../../../local/service/start-options.ts';
import { isToken } from '../../../sdk/fetch.ts';
import { type Values, wrongUse } from '../../command.ts';
import { CLASS_USAGE, defineWkrCommand, readClass, readName } from '../flags.ts';

const PORT = [0, 65_535] as const;
const MS = [0, 900_000] as const;
const { worker: WORKER } = DEFAULT_JOB;
const IGNORED = 'accepted for old scripts, without effect';

export const START_FLAGS = {
  model_dir: { value: 'dir', default: '.', about: 'handed to get_model' },
  model_name: { value: 'name', default: '', about: 'handed to get_model' },
  num_worker: { value: 'n', range: [1, 256], default: WORKER.numWorker, about: 'processes of the worker' },
  batch_size: { value: 'n', range: [1, 10_000], default: 10, about: 'most items of a batch' },
  batch_group_timeout: {
    value: 'ms',
    range: [0, 60_000],
    default: WORKER.batchGroupTimeout,
    about: 'how long an item waits for others',
  },
  device_map: {
    value: 'list',
    default: '-1',
    about: 'device of each process, -1 is the CPU: -device_map 0 1',
  },
  cpu: { about: 'the CPU for all processes' },
  gpu_memory_fraction: { value: 'share', default: '0.2', about: "share of a GPU's memory for one process" },
  port: { value: 'n', range: PORT, about: 'port of the HTTP API; 0 takes a free one' },
  port_in: { value: 'n', range: PORT, about: 'the same' },
  port_data: { value: 'n', range: PORT, about: 'the same' },
  port_out: { value: 'n', range: PORT, default: 0, about: 'accepted, not opened' },
  port_result: { value: 'n', range: PORT, default: 0, about: 'accepted, not opened' },
  http_port: { value: 'n', range: PORT, about: 'a second port with the same routes' },
  host: {
    value: 'address',
    default: '127.0.0.1',
    about: 'address of the HTTP API; others need one of the next two',
  },
  token_file: { value: 'file', about: 'callers must send the token in this file; or that of WKR_TOKEN' },
  no_token: { about: 'everybody who reaches the address may call' },
  cors: { value: 'origin', about: "origin whose pages may call from a browser, or '*'" },
  allow_img_host: { value: 'list', about: 'hosts from which /encode_img_url may fetch images over https' },
  protocol: { value: 'word', default: 'obj', about: 'obj: any values; npy: arrays, which the batch stacks' },
  tmp_folder: {
    value: 'dir',
    about: "temporary folders of the processes, in -model_dir (default: the system's)",
  },
  log_dir: {
    value: 'dir',
    about: 'folder of the logs, by day: .log, and .err for errors; without it, stderr',
  },
  log_name: { value: 'name', default: WORKER.logName, about: 'begins the names of the logs' },
  verbose: { about: 'log debug messages too' },
  name: { value: 'name', about: 'name of the service; it shows in the list of processes' },
  python: { value: 'command', default: WORKER.python, about: 'the Python of the worker' },
  predict_timeout: {
    value: 'ms',
    range: MS,
    default: WORKER.predictTimeout,
    about: 'a longer batch ends its process',
  },
  start_timeout: {
    value: 'ms',
    range: [1, 3_600_000],
    default: WORKER.startTimeout,
    about: 'limit of loading a model',
  },
  stop_timeout: {
    value: 'ms',
    range: MS,
    default: WORKER.stopTimeout,
    about: 'limit of accepted items at a stop',
  },
  max_batches: {
    value: 'n',
    range: [0, 999_999_999],
    default: WORKER.maxBatches,
    about: 'batches after which a process is replaced; 0: never',
  },
  memory_mb: {
    value: 'n',
    range: [0, 16_777_216],
    default: WORKER.memoryMB,
    about: 'a process that takes more memory is ended; 0: no limit',
  },
  watch: { about: 'for development: when the code or the model changes, new processes take over' },
  num_worker_expanded: {
    value: 'n',
    range: [0, 256],
    default: 0,
    about: 'most processes under load; 0: -num_worker',
  },
  device_to_expand: {
    value: 'n',
    range: [0, 255],
    default: 0,
    about: 'device of added processes; with -cpu, the CPU',
  },
  busy_util_threshold: { value: 'share', default: '0.95', about: 'share of time from which on one is added' },
  duration_expand: {
    value: 'ms',
    range: [5_000, 86_400_000],
    default: WORKER.durationExpand,
    about: 'over which the share is measured before one is added',
  },
  duration_squeeze: {
    value: 'ms',
    range: [5_000, 86_400_000],
    default: WORKER.durationSqueeze,
    about: 'and before one is taken away',
  },
  http_max_connect: { value: 'n', range: [1, 1_000_000], about: IGNORED },
  http_concurent_retry_num: { value: 'n', range: [0, 1_000_000], about: IGNORED },
  http_concurent_retry_gap: { value: 's', about: IGNORED },
  http_new: { about: IGNORED },
  http_stat_dashboard: { about: IGNORED },
} as const;

export const SPELLED = {
  '--data-dir': '-name',
  'http.corsOrigins': '-cors',
  'worker.class': 'the class',
};

type StartValues = Values<typeof START_FLAGS>;

/** @throws bad_config */
export function readServing(positionals: readonly string[], values: StartValues): StartSettings {
  const worker = readClass(positionals, 'server.Worker');
  const port = values.port ?? values.port_in ?? values.port_data;
  if (port === undefined) throw wrongUse('-port is missing');
  const name = readName('-name', values.name ?? 'wkr');
  const directory = process.cwd();
  const modelDirectory = resolve(values.model_dir);
  const second = values.http_port === undefined ? {} : { secondPort: values.http_port };
  return {
    jobs: [{ job: jobOf(worker, name, values), modelDirectory, directory, watch: values.watch, ...second }],
    notes: [],
    // Each service of a folder has data of its own.
    dataDir: resolve('.cluster-serving', `wkr-${name}-${port}`),
    ports: { http: port, aws: 0, redis: 0 },
    access: accessOf(values),
    preferEmbeddedRedis: false,
    once: false,
    verbose: values.verbose ?? false,
    sample: undefined,
    startedWith: {},
  };
}

/** The settings are checked as those of a config.yaml are. */
function jobOf(worker: string, name: string, values: StartValues): JobConfig {
  const { cpu, device_map: devices, tmp_folder: tmpFolder, log_dir: logDir, cors } = values;
  const job = {
    jobName: name.replaceAll('.', '-').slice(0, 60),
    batchSize: values.batch_size,
    http: cors === undefined ? {} : { corsOrigins: [cors] },
    worker: {
      class: worker,
      modelName: values.model_name,
      numWorker: values.num_worker,
      batchGroupTimeout: values.batch_group_timeout,
      deviceMap: cpu
        ? [-1]
        : devices
            .replaceAll(/[[\],]/g, ' ')
            .trim()
            .split(/\s+/),
      gpuMemoryFraction: values.gpu_memory_fraction,
      protocol: values.protocol,
      ...(tmpFolder === undefined ? {} : { tmpFolder: resolve(values.model_dir, tmpFolder) }),
      ...(logDir === undefined ? {} : { logDir: resolve(logDir) }),
      logName: values.log_name,
      verbose: values.verbose ?? false,
      predictTimeout: values.predict_timeout,
      startTimeout: values.start_timeout,
      stopTimeout: values.stop_timeout,
      allowImgHost: values.allow_img_host?.split(/[\s,]+/).filter(Boolean) ?? [],
      maxBatches: values.max_batches,
      memoryMB: values.memory_mb,
      python: values.python,
      numWorkerExpanded: values.num_worker_expanded,
      deviceToExpand: cpu || devices === '-1' ? -1 : values.device_to_expand,
      busyUtilThreshold: values.busy_util_threshold,
      durationExpand: values.duration_expand,
      durationSqueeze: values.duration_squeeze,
    },
  };
  try {
    return readConfigText(JSON.stringify(job), 'the flags').job;
  } catch (error) {
    // It has one line.
    throw badConfig(ServingError.from(error).message.replaceAll(/^the flags:\n|^ *line 1: /gm, ''));
  }
}

function accessOf({ host, token_file: file, no_token: noToken, cors }: StartValues): Access {
  const own = variables['WKR_TOKEN'];
  const hasToken = file !== undefined || Boolean(own);
  if (!hasToken && !noToken) {
    const opens = cors === '*' ? `-cors '*'` : isLoopback(host) ? undefined : `-host ${host}`;
    if (opens) throw wrongUse(`${opens} lets others call; pass -token_file <file> or -no_token`);
  }
  const access = readAccess({ host, 'no-token': true });
  if (file !== undefined) return { ...access, token: readToken(file, undefined, '-token_file') };
  if (!own) return access;
  if (isToken(own)) return { ...access, token: own };
  throw wrongUse('WKR_TOKEN: expected 16 to 512 letters, digits and - . _ ~ + /');
}

export const command = defineWkrCommand({
  name: 'wkr-serving-start',
  usage: CLASS_USAGE,
  about: `Serves a worker on this machine: a class of server.py or server.ts in this folder. Prints "ready" when requests are
answered, and stays until it is terminated.`,
  flags: START_FLAGS,
  required: [],
  wordLists: ['device_map', 'allow_img_host'],
  spelled: SPELLED,
  async run({ positionals, values }) {
    const settings = readServing(positionals, values);
    const { serve } = await import('../../../local/service/serve.ts');
    return serve(settings, { json: false, isControlled: true });
  },
});
