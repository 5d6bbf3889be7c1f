/** The settings of a job's own worker, instead of a model. */
import {
  choice,
  fitting,
  flag,
  folder,
  list,
  MAX_PATH_LENGTH,
  or,
  type Reader,
  setting,
  text,
  texts,
  whole,
} from './readers.ts';
import { numberOf } from './value.ts';

/** A module and a class in it, `server.Worker`; folders of Python packages may come before. */
const WORKER_CLASS = /^[A-Za-z_]\w*(\.[A-Za-z_]\w*){1,7}$/;
const MAX_DEVICES = 256;
const share: Reader<number> = {
  expected: 'a number above 0, at most 1',
  read: (value) => {
    const read = numberOf(value);
    return read !== undefined && read > 0 && read <= 1 ? read : undefined;
  },
};

const anyText = text(() => undefined);
const logName = fitting('letters, digits, ".", "_" or "-"', (name) => /^[\w.-]{1,100}$/.test(name));
const command = fitting(
  'a command',
  (name) => name !== '' && name.length <= MAX_PATH_LENGTH && !name.includes('\0'),
);
const hosts = texts('names of hosts in lower case, with their port if it is not 443', (host) =>
  /^[a-z0-9][a-z0-9.-]{0,252}(:\d{1,5})?$/.test(host),
);
const devices = list(
  `at most ${MAX_DEVICES} numbers of devices, -1 for the CPU`,
  numberOf,
  (device) => Number.isInteger(device) && device >= -1,
  (count) => count > 0 && count <= MAX_DEVICES,
);

export const WORKER = {
  class: setting(
    fitting('a module and a class in it, such as server.Worker', (name) => WORKER_CLASS.test(name)),
    'Your own worker instead of a model: a class of `server.py` or `server.ts` beside this file.',
    { byDefault: 'none; the job serves a model', example: 'server.Worker' },
  ),
  modelName: setting(or(anyText, ''), 'Handed to `get_model`, together with the folder `modelPath`.', {
    example: 'model.hdf5',
  }),
  numWorker: setting(
    or(whole(1, 256), 1),
    'Processes of the worker on one machine; a deployed function runs one.',
  ),
  batchGroupTimeout: setting(
    or(whole(0, 60_000), 5),
    'How long an item waits for others to share its batch, in ms.',
  ),
  deviceMap: setting(
    or(devices, [-1]),
    'The device of each process, repeated or cut to their number; -1 is the CPU.',
  ),
  gpuMemoryFraction: setting(or(share, 0.2), "Share of a GPU's memory for one process."),
  protocol: setting(
    or(choice('obj', 'npy', 'numpy'), 'obj'),
    'What an item is: any value (`obj`), or an array (`npy`), which the batch stacks.',
  ),
  tmpFolder: setting(folder, 'Where processes have their temporary folders.', {
    byDefault: "the system's",
    example: '/var/tmp',
  }),
  logDir: setting(folder, 'Folder of the log files of the worker.', {
    byDefault: "none; it writes to the service's log",
    example: 'logs',
  }),
  logName: setting(or(logName, 'WKRServer'), 'Begins the name of the log files.'),
  verbose: setting(or(flag, false), 'Whether debug messages of the worker are logged.'),
  predictTimeout: setting(
    or(whole(1, 900_000), 30_000),
    'A batch that takes longer ends its process, in ms.',
  ),
  startTimeout: setting(
    or(whole(1, 3_600_000), 120_000),
    'How long a process may take to load its model, in ms.',
  ),
  stopTimeout: setting(
    or(whole(0, 900_000), 30_000),
    'How long accepted items may take when the service stops, in ms.',
  ),
  maxBatches: setting(or(whole(0, 1_000_000_000), 0), 'Batches after which a process is replaced; 0: never.'),
  memoryMB: setting(or(whole(0, 16_777_216), 0), 'A process that takes more memory is ended; 0: no limit.'),
  python: setting(or(command, 'python3'), 'The Python of the worker, such as that of a virtual environment.'),
  allowImgHost: setting(
    or(hosts, []),
    'Hosts from which `POST /encode_img_url` may fetch images over https.',
  ),
  numWorkerExpanded: setting(or(whole(0, 256), 0), 'Most processes under load; 0: as many as `numWorker`.'),
  deviceToExpand: setting(or(whole(-1, 255), 0), 'The device of processes that are added.'),
  busyUtilThreshold: setting(
    or(share, 0.95),
    'Share of time that processes work, from which on there is one more.',
  ),
  durationExpand: setting(
    or(whole(5_000, 86_400_000), 300_000),
    'The share is measured over this time before adding one, in ms.',
  ),
  durationSqueeze: setting(
    or(whole(5_000, 86_400_000), 600_000),
    'And over this time before one is taken away, in ms.',
  ),
};
