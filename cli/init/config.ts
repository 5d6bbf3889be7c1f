/**
 * Writes a config.yaml with every key, its meaning and its default. All settings are commented out, so that the file
 * never contradicts the defaults of a later version; sections are not, so that uncommenting one line is enough.
 */
import type { SettingDefinition } from '../../lib/config/readers.ts';
import { GROUPS } from '../../lib/config/schema.ts';

const ABOUT: Readonly<Record<keyof typeof GROUPS, string>> = {
  '': `Settings of one job. Every line is a default or an example: uncomment what you want to change. Unknown keys are
# refused, with the one that was probably meant.`,
  image: 'How a picture becomes a tensor.',
  import: 'How a model that is not ONNX becomes ONNX (docs/how-to/import-a-model.md).',
  queue: 'The SQS queue and the functions that read it.',
  jobs: 'Jobs over files (docs/how-to/jobs-over-files.md).',
  function: 'The Lambda functions.',
  http: 'The HTTPS API.',
  budget: 'What requests and records may cost (docs/how-to/limit-what-it-costs.md).',
  models: 'Further models beside that of modelPath (docs/how-to/serve-many-models.md).',
  capture: 'What is kept of requests and records, to be replayed (docs/how-to/replay.md).',
  release: 'What a new version of the model has to pass.',
  worker: 'Your own code instead of a model (docs/how-to/serve-your-own-code.md).',
};

/** Every setting with its meaning and its default, or an example if it has no default. */
export function configText(): string {
  return Object.entries(GROUPS)
    .map(([name, group]) => {
      const settings = Object.entries(group).map(([key, one]) => settingText(key, one));
      const about = `# ${ABOUT[name as keyof typeof GROUPS]}`;
      if (name === '') return `${about}\n\n${settings.join('\n')}`;
      return `${about}\n${name}:\n${settings.join('').replaceAll(/^/gm, '  ').trimEnd()}\n`;
    })
    .join('\n');
}

function settingText(key: string, one: SettingDefinition<unknown>): string {
  const { about, byDefault, example = JSON.stringify(one.defaultValue) } = one;
  const fallback = byDefault === undefined ? '' : ` Default: ${byDefault}.`;
  return `# ${about}${fallback}\n# ${key}: ${example.replaceAll(/^"(.*)"$/g, '$1')}\n`;
}
