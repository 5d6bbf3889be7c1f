/**
 * `cluster-serving init` writes a config.yaml with every key, its meaning and its default or, with --deploy, the
 * serverless.yml of a deployment from this folder; with --shared-redis, the file of a Redis for several of them. All
 * settings are commented out, so that the file never contradicts the defaults of a later version; sections are not, so
 * that uncommenting one line is enough.
 */
import { writeFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import { DEFAULT_JOB } from '../../lib/config/job.ts';
import type { SettingDefinition } from '../../lib/config/readers.ts';
import { GROUPS } from '../../lib/config/schema.ts';
import { ServingError } from '../../lib/contract/errors.ts';
import { defineCommand, wrongUse } from '../command.ts';
import { deploymentText } from '../deployment.ts';
import { EXIT, type Output } from '../output.ts';

const CONFIG = 'config.yaml';

export const command = defineCommand({
  name: 'init',
  about: `Writes a config.yaml with every setting, its meaning and its default, all commented out. With --deploy it writes a
serverless.yml instead: then \`npx serverless deploy\` in this folder deploys to AWS what its config.yaml says. With
--shared-redis it writes shared-redis.yml, for the stack of a Redis that several jobs and stages share.`,
  options: {
    config: { short: 'c', value: 'file', about: `file to write (default ${CONFIG})` },
    deploy: { about: 'write serverless.yml, and no config.yaml' },
    'shared-redis': { about: 'write shared-redis.yml, and no config.yaml' },
    force: { about: 'replace an existing file' },
  },
  async run({ config, deploy = false, 'shared-redis': isShared = false, force = false }, output) {
    if (!deploy && !isShared) return writeConfig(config ?? CONFIG, force, output);
    if (config !== undefined || (deploy && isShared))
      throw wrongUse('init writes one file: give one of --config, --deploy and --shared-redis');
    return writeDeployment(isShared, force, output);
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

async function writeDeployment(isShared: boolean, force: boolean, output: Output): Promise<number> {
  const file = isShared ? 'shared-redis.yml' : 'serverless.yml';
  const serverless = await write(file, await deploymentText(process.cwd(), file), force);
  const next = isShared
    ? `npx serverless deploy --config ${file} --param jobs=<job>@<stage>,<job>@<stage>`
    : 'npx serverless package, which needs no AWS account, then npx serverless deploy';
  output.answer({ serverless }, `wrote ${file}; next: ${next}`);
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

const ABOUT: Readonly<Record<keyof typeof GROUPS, string>> = {
  '': `Settings of one job. Every line is a default or an example: uncomment what you want to change. Unknown keys are
# refused, with the one that was probably meant.`,
  image: 'How a picture becomes a tensor.',
  import: 'How a model that is no ONNX becomes one (docs/how-to/import-a-model.md).',
  queue: 'The SQS queue and the functions that read it.',
  function: 'The Lambda functions.',
  http: 'The HTTPS API.',
  worker: 'Your own code in place of a model (docs/how-to/serve-your-own-code.md).',
};

/** Every setting with its meaning and its default, or an example of it where it has none. */
export function configText(): string {
  return Object.entries(GROUPS)
    .map(([name, group]) => {
      const defaults: object = name === '' ? DEFAULT_JOB : Object(DEFAULT_JOB)[name];
      const settings = Object.entries(group).map(([key, one]) => settingText(key, one, defaults));
      const about = `# ${ABOUT[name as keyof typeof GROUPS]}`;
      if (name === '') return `${about}\n\n${settings.join('\n')}`;
      return `${about}\n${name}:\n${settings.join('').replaceAll(/^/gm, '  ').trimEnd()}\n`;
    })
    .join('\n');
}

function settingText(key: string, one: SettingDefinition<unknown>, defaults: object): string {
  const { about, byDefault, example = JSON.stringify(Object(defaults)[key]) } = one;
  const fallback = byDefault === undefined ? '' : ` Default: ${byDefault}.`;
  return `# ${about}${fallback}\n# ${key}: ${example.replaceAll(/^"(.*)"$/g, '$1')}\n`;
}
