/** The options of `cluster-serving model`. */
import { MAKING_OPTIONS } from '../../onnx-import/options.ts';
import { only } from '../command.ts';
import { SERVICE_OPTIONS, YES } from '../service.ts';

const CONFIG_OPTION = only(['import', 'check', 'push', 'replay', 'golden', 'promote', 'rollback'], {
  config: {
    short: 'c',
    value: 'file',
    about:
      'take import:, batchSize, batching and what golden requests depend on from this config.yaml; these options override it',
  },
});

const IMPORT_OPTIONS = only(['import', 'check', 'push', 'golden'], MAKING_OPTIONS);

/** Keeping more would not be pruning. */
const MAX_KEPT = 1_000;

export const OPTIONS = {
  ...CONFIG_OPTION,
  ...IMPORT_OPTIONS,
  ...only(['import'], {
    out: {
      value: 'dir',
      about:
        'where the model is written (default: <dir>-onnx, beside <dir>; of s3://… and hf://… in this folder)',
    },
  }),
  ...only(['import'], {
    'with-python': {
      about:
        "have the framework's own exporter make ONNX of a file that only Python reads (scikit-learn, Keras 3, CatBoost, PaddlePaddle, torch.export), in an environment that is thrown away; PYTHON names the interpreter",
    },
  }),
  ...only(['import', 'golden'], {
    force: { about: 'write into a directory with other files, too; they stay; replace a golden request' },
  }),
  ...only(['golden'], {
    request: { value: 'file.json', about: 'request {"instances": [...]} that a running service answers now' },
    name: { value: 'name', about: 'name of the golden request (default: that of the file)' },
    url: SERVICE_OPTIONS.url,
    'token-file': SERVICE_OPTIONS['token-file'],
  }),
  ...only(['replay'], {
    since: {
      value: 'time',
      about: 'captures from here on: 24h, 30m, 7d or 2026-11-28T08:00Z (default 24h)',
    },
    'answered-by': { value: 'version', about: 'only what this version answered (default: each)' },
    by: { value: 'input', about: 'count the differences by the values of this input' },
    'in-aws': { about: 'ask a stored version in the deployment --stack, beside its captures' },
    stack: { value: 'name', about: 'CloudFormation stack of that deployment' },
    fresh: { about: 'start again, where a replay of the same was stopped and would go on' },
    'max-flips': {
      value: 'share',
      about:
        'records whose first class may change in another version: 0.005 or 0.5% (default: release.maxFlips, else any)',
    },
  }),
  ...only(['import', 'push', 'diff', 'replay', 'list', 'trial', 'promote', 'rollback', 'prune'], {
    to: { value: 's3://bucket/prefix', about: 'the place; an import uploads the model there' },
    bucket: { value: 'name', about: 'bucket of a deployed service' },
  }),
  ...only(['import', 'push', 'diff', 'replay', 'golden', 'list', 'trial', 'promote', 'rollback', 'prune'], {
    job: { value: 'name', about: 'the place of this job, locally or in --bucket (default: the first one)' },
    model: { value: 'name', about: 'a further model of the job, which requests name (default: its own)' },
    'data-dir': { value: 'dir', about: 'data folder of the local service (default .cluster-serving)' },
  }),
  ...only(['import', 'push'], {
    'drop-golden': { about: 'neither ask nor keep the golden requests of the version that serves now' },
  }),
  ...only(['import', 'push'], {
    accept: {
      value: 'name,...',
      about: 'changes of which clients know, by the names that `model diff` gives them, or all',
    },
  }),
  ...only(['push'], {
    'no-activate': { about: 'upload the version, but keep serving the current one' },
    canary: {
      value: 'share',
      about:
        'answer this share of the records with it, 5% or 0.05, at most half; it is rolled back when it is worse, and after a day',
    },
    shadow: {
      about: 'let it answer captured requests beside the version that serves, and count what differs',
    },
  }),
  ...only(['trial'], { end: { about: 'end what is on trial; the version that serves stays' } }),
  ...only(['import', 'prune'], { yes: YES }),
  ...only(['prune'], {
    keep: { value: 'n', range: [0, MAX_KEPT], about: 'how many versions to keep' },
  }),
} as const;

/** The actions that need nothing but the place of the versions. */
const PLACE_ACTIONS = ['list', 'trial', 'promote', 'rollback', 'prune'] as const;
export type PlaceAction = (typeof PLACE_ACTIONS)[number];

export function isPlaceAction(action: string): action is PlaceAction {
  return PLACE_ACTIONS.some((name) => name === action);
}
