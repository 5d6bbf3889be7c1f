/** The settings of a job's own worker, in place of a model. */
import { badConfig } from '../contract/errors.ts';
import {
  choice,
  flag,
  folder,
  listOf,
  MAX_PATH_LENGTH,
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

export const WORKER = {
  class: setting(
    text((name) => {
      if (!WORKER_CLASS.test(name))
        throw badConfig('expected a module and a class in it, such as server.Worker');
    }),
    'Your own worker in place of a model: a class of `server.py` or `server.ts` beside this file.',
    { byDefault: 'none; the job serves a model', example: 'server.Worker' },
  ),
  modelName: setting(
    text(() => undefined),
    'Handed to `get_model`, together with the folder `modelPath`.',
    { example: 'model.hdf5' },
  ),
  numWorker: setting(whole(1, 256), 'Processes of the worker on one machine; a deployed function runs one.'),
  batchGroupTimeout: setting(
    whole(0, 60_000),
    'How long an item waits for others to share its batch, in ms.',
  ),
  deviceMap: setting(
    {
      expected: `at most ${MAX_DEVICES} numbers of devices, -1 for the CPU`,
      read: (value) => {
        const devices = listOf(value).map(numberOf);
        const good = devices.filter(
          (device) => device !== undefined && Number.isInteger(device) && device >= -1,
        );
        return good.length === devices.length && good.length > 0 && good.length <= MAX_DEVICES
          ? (good as number[])
          : undefined;
      },
    },
    'The device of each process, repeated or cut to their number; -1 is the CPU.',
  ),
  gpuMemoryFraction: setting(share, "Share of a GPU's memory for one process."),
  protocol: setting(
    choice('obj', 'npy', 'numpy'),
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
  logName: setting(
    text((name) => {
      if (!/^[\w.-]{1,100}$/.test(name)) throw badConfig('expected letters, digits, ".", "_" or "-"');
    }),
    'Begins the name of the log files.',
  ),
  verbose: setting(flag, 'Whether debug messages of the worker are logged.'),
  predictTimeout: setting(whole(1, 900_000), 'A batch that takes longer ends its process, in ms.'),
  startTimeout: setting(whole(1, 3_600_000), 'How long a process may take to load its model, in ms.'),
  stopTimeout: setting(whole(0, 900_000), 'How long accepted items may take when the service stops, in ms.'),
  maxBatches: setting(whole(0, 1_000_000_000), 'Batches after which a process is replaced; 0: never.'),
  memoryMB: setting(whole(0, 16_777_216), 'A process that takes more memory is ended; 0: no limit.'),
  python: setting(
    text((name) => {
      if (name === '' || name.length > MAX_PATH_LENGTH || name.includes('\0'))
        throw badConfig('expected a command');
    }),
    'The Python of the worker, such as that of a virtual environment.',
  ),
  allowImgHost: setting(
    texts('names of hosts in lower case, with their port if it is not 443', (host) =>
      /^[a-z0-9][a-z0-9.-]{0,252}(:\d{1,5})?$/.test(host),
    ),
    'Hosts from which `POST /encode_img_url` may fetch images over https.',
  ),
  numWorkerExpanded: setting(whole(0, 256), 'Most processes under load; 0: as many as `numWorker`.'),
  deviceToExpand: setting(whole(-1, 255), 'The device of processes that are added.'),
  busyUtilThreshold: setting(share, 'Share of time that processes work, from which on there is one more.'),
  durationExpand: setting(
    whole(5_000, 86_400_000),
    'The share is measured over this time before adding one, in ms.',
  ),
  durationSqueeze: setting(whole(5_000, 86_400_000), 'And over this time before one is taken away, in ms.'),
};
