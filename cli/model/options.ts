/** The options of `cluster-serving model` that say how a model is made. */
import { MAKING_OPTIONS } from '../../onnx-import/options.ts';
import { only } from '../command.ts';

export const CONFIG_OPTION = only(['import', 'check', 'push', 'replay', 'golden', 'rollback'], {
  config: {
    short: 'c',
    value: 'file',
    about:
      'take import:, batchSize, batching and what golden requests depend on from this config.yaml; these options override it',
  },
});

export const IMPORT_OPTIONS = only(['import', 'check', 'push', 'golden'], MAKING_OPTIONS);
