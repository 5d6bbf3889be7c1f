/**
 * Reads the settings, parameters, template and archives that the rules need. A missing package is an error only if it
 * was named on the command line.
 */
import { existsSync } from 'node:fs';
import { readdir, readFile, stat } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { resolveModelPath } from '../../lib/config/model-path.ts';
import { ServingError } from '../../lib/contract/errors.ts';
import { configPath, PARAMETER_NAMES, readJobConfig, readSettings } from '../template/config.ts';
import type { Parameters } from '../template/parameters.ts';
import { stageParameters } from '../template/stage-parameters.ts';
import { type ArchiveFacts, readArchiveFacts } from './archive.ts';
import { readModelFacts } from './model-facts.ts';
import type { Facts } from './rule.ts';
import { recordOf, stageOf, type Template } from './template.ts';

export interface FactsRequest {
  /** Base of relative paths, with config.yaml and .serverless. Absolute. */
  readonly root: string;
  /** The folder with serverless.yml. Absolute. */
  readonly project: string;
  /** The folder of the package, whose serverless.yml has the defaults of parameters. Default: project. */
  readonly defaults?: string;
  /** Default: config.yaml of root when there is one. */
  readonly config: string | undefined;
  /** Default: the template's, else dev. */
  readonly stage: string | undefined;
  /** Each `--param`. */
  readonly parameters: Readonly<Record<string, string>>;
  /** Default: the one in the package's folder. */
  readonly template: string | undefined;
  /** Default: the folder of the template, else .serverless. */
  readonly packageFolder: string | undefined;
}

export interface FactsReading {
  readonly facts: Facts;
  /** Undefined if there is no config.yaml. */
  readonly configFile: string | undefined;
  /** Undefined if none was found. */
  readonly templateFile: string | undefined;
}

const TEMPLATE_FILE = 'cloudformation-template-update-stack.json';
const PACKAGE_FOLDER = '.serverless';
const DEFAULT_STAGE = 'dev';
const MAX_TEMPLATE_BYTES = 16 * 1024 * 1024;
const MAX_ARCHIVES = 100;

/** @throws bad_config for settings that are wrong, and for files that were named and cannot be read */
export async function readFacts(request: FactsRequest): Promise<FactsReading> {
  const { root, project, defaults = project, config, parameters: given } = request;
  const { job, notes } = readJobConfig(root, config);
  const templateFile = templatePath(request);
  const template = templateFile === undefined ? undefined : await readTemplate(templateFile);
  const stage = request.stage ?? (template && stageOf(template)) ?? DEFAULT_STAGE;
  const own = await stageParameters(join(project, 'serverless.yml'), stage);
  const usual = await stageParameters(join(defaults, 'serverless.yml'), stage);
  const all = { ...usual, ...own, ...given };
  const parameters = Object.fromEntries(PARAMETER_NAMES.map((name) => [name, all[name]]));
  const settings = readSettings(root, {
    stage,
    config,
    parameters: parameters as Parameters,
    named: Object.keys({ ...own, ...given }),
  });
  const settingsFile = configPath(root, config);
  const directory = resolveModelPath(dirname(settingsFile), job.modelPath);
  const folder = request.packageFolder ?? (templateFile && dirname(templateFile));
  return {
    configFile: existsSync(settingsFile) ? settingsFile : undefined,
    templateFile,
    facts: {
      stage,
      stageGiven: request.stage,
      job,
      settings,
      notes,
      parameters: parameters as Parameters,
      given: new Set(Object.keys(given)),
      model: await readModelFacts(directory, {
        anyFiles: job.worker.class !== undefined,
        choice: job.import,
      }),
      template,
      archives: template && folder ? await readArchives(resolve(root, folder)) : undefined,
    },
  };
}

function templatePath({ root, template, packageFolder }: FactsRequest): string | undefined {
  if (template !== undefined) return resolve(root, template);
  const path = resolve(root, packageFolder ?? PACKAGE_FOLDER, TEMPLATE_FILE);
  if (existsSync(path)) return path;
  if (packageFolder === undefined) return undefined;
  throw wrong(
    `--package ${packageFolder}: there is no ${TEMPLATE_FILE} in it; \`npx serverless package\` makes one`,
  );
}

async function readTemplate(path: string): Promise<Template> {
  const text = await readText(path, MAX_TEMPLATE_BYTES, 'template');
  let document: unknown;
  try {
    document = JSON.parse(text);
  } catch (error) {
    throw wrong(`template ${path} is not JSON: ${(error as Error).message}`, error);
  }
  const { Resources } = recordOf(document);
  const resources = Object.values(recordOf(Resources));
  const isTemplate =
    resources.length > 0 && resources.every((one) => typeof recordOf(one)['Type'] === 'string');
  if (!isTemplate) throw wrong(`template ${path}: expected CloudFormation's Resources, each with a Type`);
  return document as Template;
}

/** Undefined if there are none. */
async function readArchives(folder: string): Promise<Map<string, ArchiveFacts> | undefined> {
  const names = (await readdir(folder)).filter((name) => name.endsWith('.zip')).slice(0, MAX_ARCHIVES);
  if (names.length === 0) return undefined;
  const archives = new Map<string, ArchiveFacts>();
  for (const name of names.sort()) {
    archives.set(name.slice(0, -'.zip'.length), await readArchiveFacts(join(folder, name)));
  }
  return archives;
}

async function readText(path: string, mostBytes: number, what: string): Promise<string> {
  try {
    const { size } = await stat(path);
    if (size > mostBytes) throw new Error(`${size} bytes are over the limit of ${mostBytes}`);
    return await readFile(path, 'utf8');
  } catch (error) {
    throw wrong(`${what} ${path} cannot be read: ${(error as Error).message}`, error);
  }
}

function wrong(message: string, cause?: unknown): ServingError {
  return new ServingError('bad_config', message, { cause });
}
