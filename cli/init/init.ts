/**
 * `cluster-serving init <folder>` makes a project. Without a folder it writes a file into this one: a config.yaml with
 * every setting or, with --deploy, the serverless.yml of a deployment; with --shared-redis, that of a Redis for several.
 */
import { writeFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import { DEFAULT_JOB } from '../../lib/config/job.ts';
import { asError, ServingError } from '../../lib/contract/errors.ts';
import { defineCommand, wrongUse } from '../command.ts';
import { EXIT, type Output } from '../output.ts';
import { configText } from './config.ts';
import { type DeploymentFile, deploymentText } from './deployment.ts';

const CONFIG = 'config.yaml';

export const command = defineCommand({
  name: 'init',
  usage: [
    '<folder> [--model <path> | --worker <language>] [--name <name>]',
    '[--config <file> | --deploy | --shared-redis] [--force]',
  ],
  about: `With <folder>, which must be new or empty: makes a project there, with the sample, a --model or a --worker, its
settings, a test and a deployment. package.json names the packages of this command, in their exact versions.
Without it: writes a config.yaml with every setting, its meaning and its default, all commented out. With --deploy it
writes a serverless.yml instead: then \`npx serverless deploy\` in this folder deploys to AWS what its config.yaml
says. With --shared-redis it writes shared-redis.yml, for the stack of a Redis that several jobs and stages share.`,
  options: {
    model: {
      value: 'path',
      about: 'of a project: model to import, a file, a folder, s3://… or hf://… (default: the sample)',
    },
    worker: { choices: ['python', 'typescript'], about: 'of a project: code instead of a model' },
    name: {
      value: 'name',
      about: 'of a project: name of its package and its job (default: that of the folder)',
    },
    config: { short: 'c', value: 'file', about: `file to write (default ${CONFIG})` },
    deploy: { about: 'write serverless.yml, and no config.yaml' },
    'shared-redis': { about: 'write shared-redis.yml, and no config.yaml' },
    force: { about: 'replace an existing file' },
  },
  examples: ['init my-service', 'init my-service --model resnet50.onnx', 'init --deploy'],
  async run({ model, worker, name, ...files }, output, [folder, surplus]) {
    if (surplus !== undefined) throw wrongUse(`init: unexpected ${JSON.stringify(surplus)}`);
    const stray = Object.keys(folder === undefined ? { model, worker, name } : files);
    const values: Readonly<Record<string, unknown>> = { model, worker, name, ...files };
    const [given] = stray.filter((option) => values[option] !== undefined);
    if (given !== undefined)
      throw wrongUse(
        `init: --${given} goes ${folder === undefined ? 'with the folder of a new project' : 'without a folder'}`,
      );
    if (folder === undefined) return writeFiles(files, output);
    const { createProject } = await import('./project.ts');
    return createProject({ folder, model, worker, name }, output);
  },
});

interface Files {
  readonly config?: string;
  readonly deploy?: boolean;
  readonly 'shared-redis'?: boolean;
  readonly force?: boolean;
}

async function writeFiles(files: Files, output: Output): Promise<number> {
  const { config, deploy = false, 'shared-redis': isShared = false, force = false } = files;
  if (!deploy && !isShared) return writeConfig(config ?? CONFIG, force, output);
  if (config !== undefined || (deploy && isShared))
    throw wrongUse('init writes one file: give one of --config, --deploy and --shared-redis');
  return writeDeployment(isShared ? 'shared-redis.yml' : 'serverless.yml', force, output);
}

async function writeConfig(file: string, force: boolean, output: Output): Promise<number> {
  const config = await write(file, configText(), force);
  output.answer(
    { config },
    `wrote ${file}; put your *.onnx into ${DEFAULT_JOB.modelPath}/ beside it, then: cluster-serving start -c ${file}`,
  );
  return EXIT.ok;
}

async function writeDeployment(file: DeploymentFile, force: boolean, output: Output): Promise<number> {
  const serverless = await write(file, deploymentText(process.cwd(), file), force);
  const next =
    file === 'shared-redis.yml'
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
    const { code, message } = asError(error);
    const why = code === 'EEXIST' ? 'is there already; --force replaces it' : `cannot be written: ${message}`;
    throw new ServingError('bad_config', `${file} ${why}`, { cause: error });
  }
  return path;
}
