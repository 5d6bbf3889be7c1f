/**
 * `cluster-serving doctor`: reports pitfalls in the settings and in the package, each with its reason and a fix. It
 * does not call AWS and changes nothing, so what is deployed may differ.
 */
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join, relative } from 'node:path';
import { promisify } from 'node:util';
import type { FactsRequest } from '../../infra/doctor/facts.ts';
import { ServingError } from '../../lib/contract/errors.ts';
import { variables } from '../../lib/contract/variables.ts';
import { packageFolder } from '../../local/installation.ts';
import { defineCommand, unexpected, wrongUse } from '../command.ts';
import { EXIT, type Output } from '../output.ts';

const DEFAULT_COLUMNS = 100;
/** Packaging takes about 10 s. */
const PACKAGE_MS = 300_000;
const MAX_OUTPUT_BYTES = 4 * 1024 * 1024;

export const command = defineCommand({
  name: 'doctor',
  about: `Looks for known pitfalls before a deployment: in config.yaml, the parameters, the packaged template and the
archives. For each it prints what was found, why it matters, what it should be and which setting to change.
Exit code: 0 no error (with --strict: no warning either), 1 some, 2 wrong use or config.`,
  options: {
    config: { short: 'c', value: 'file', about: 'config.yaml to check (default: ./config.yaml if any)' },
    stage: {
      value: 'name',
      about: "stage (default: the template's, else dev); stricter for prod, prd and live",
    },
    param: { value: 'name=value', multiple: true, about: 'parameter, as serverless takes it' },
    template: { value: 'file', about: 'packaged template (default: the one in .serverless if any)' },
    package: { value: 'dir', about: "folder with template and archives (default: the template's)" },
    'package-now': { about: 'run `serverless package` first, with this config, stage and parameters' },
    strict: { about: 'exit code 1 for warnings too' },
  },
  async run(values, output) {
    const parameters = parametersOf(values.param ?? []);
    if (values.config !== undefined && parameters['config'] !== undefined)
      throw wrongUse('doctor: --config and --param config are the same option; give one of them');
    const config = values.config ?? parameters['config'];
    const { stage, template, package: folder, strict = false } = values;
    const root = process.cwd();
    // The folder with serverless.yml: the current one, or that of this code's checkout.
    const project = existsSync(join(root, 'serverless.yml')) ? root : packageFolder();
    const request = { root, project, config, stage, parameters, template };
    if (!values['package-now']) return examined({ ...request, packageFolder: folder }, strict, output);
    if ((template ?? folder) !== undefined)
      throw wrongUse(
        'doctor: --package-now makes the package; --template and --package name an existing one',
      );
    output.note('packaging, which takes a few seconds');
    await packageNow(request);
    return examined({ ...request, packageFolder: '.serverless' }, strict, output);
  },
});

async function examined(request: FactsRequest, strict: boolean, output: Output): Promise<number> {
  const { readFacts } = await import('../../infra/doctor/facts.ts');
  const { examine } = await import('../../infra/doctor/examine.ts');
  const { reportText } = await import('../../infra/doctor/report.ts');
  const { facts, configFile, templateFile } = await readFacts(request);
  const examination = examine(facts);
  const { counts } = examination;
  const ok = counts.error === 0 && (!strict || counts.warning === 0);
  const { stage } = facts;
  const archives = facts.archives?.size ?? 0;
  const places = { config: configFile ?? null, template: templateFile ?? null };
  const title = [
    `stage ${stage}`,
    configFile ? shown(configFile) : 'all defaults, no config.yaml',
    templateFile
      ? shown(templateFile)
      : 'NO TEMPLATE: settings only; `npx serverless package` or --package-now makes one',
    ...(templateFile && archives === 0 ? ['NO ARCHIVES beside it'] : []),
  ].join('; ');
  const colours = process.stdout.isTTY && !variables['NO_COLOR'];
  const columns = process.stdout.columns || DEFAULT_COLUMNS;
  const text = reportText(examination, { colours, columns, title });
  output.answer({ ok, stage, ...places, archives, ...examination }, text);
  return ok ? EXIT.ok : EXIT.failed;
}

function shown(path: string): string {
  const below = relative(process.cwd(), path);
  return below.startsWith('..') ? path : below;
}

function parametersOf(texts: readonly string[]): Record<string, string> {
  const parameters: Record<string, string> = {};
  for (const text of texts) {
    const at = text.indexOf('=');
    if (at < 1) throw unexpected('param', '<name>=<value>', text);
    parameters[text.slice(0, at)] = text.slice(at + 1);
  }
  return parameters;
}

/** Runs `serverless package` with the same options, and leaves its output in place. */
async function packageNow({ root, project, config, stage, parameters }: Omit<FactsRequest, 'packageFolder'>) {
  if (project !== root)
    throw wrongUse(
      'doctor --package-now: there is no serverless.yml in this folder; `cluster-serving init --deploy` writes one',
    );
  const all = config === undefined ? parameters : { ...parameters, config };
  const args = Object.entries(all).flatMap(([name, value]) => ['--param', `${name}=${value}`]);
  const line = ['package', ...(stage === undefined ? [] : ['--stage', stage]), ...args];
  const script = serverlessScript(project);
  const options = { cwd: project, timeout: PACKAGE_MS, maxBuffer: MAX_OUTPUT_BYTES };
  const run = promisify(execFile)(process.execPath, [script, ...line], options);
  await run.catch(({ stdout, stderr }: Record<'stdout' | 'stderr', string>) => {
    throw wrongUse(`serverless package failed:\n${stdout}${stderr}`.trim());
  });
}

function serverlessScript(project: string): string {
  try {
    return createRequire(join(project, 'package.json')).resolve('serverless/bin/serverless.js');
  } catch (error) {
    throw new ServingError('bad_config', 'serverless is not installed here: npm install', { cause: error });
  }
}
