/** The settings of the further models of a job. */
import { isModelName } from '../contract/names.ts';
import { folder, or, setting, texts, whole } from './readers.ts';

export const MODELS = {
  folder: setting(
    folder,
    'Folder of [further models](../how-to/serve-many-models.md), relative to this file: each folder in it is a model under its name. `start` and `serverless deploy` publish them.',
    { byDefault: 'none', example: 'models' },
  ),
  memoryMB: setting(
    whole(1, 10_240),
    'Memory of all further models that are open. For another one, those that were not used for the longest time are closed.',
    {
      byDefault: 'half of what `function.memoryMB` has above 256 MB, at least 64',
      example: '512',
      above: 'The import is refused.',
    },
  ),
  pinned: setting(
    or(texts('names of models', isModelName), []),
    'Further models that stay open: `[fraud, search]`.',
  ),
};
