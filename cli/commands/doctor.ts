/**
 * `cluster-serving doctor`: reports pitfalls in the settings and in the package, each with its reason and a fix. It asks
 * nothing of AWS and changes nothing; what is deployed may differ.
 */
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join, relative } from 'node:path';
import type { FactsRequest } from '../../infra/doctor/facts.ts';
import { ServingError } from '../../lib/contract/errors.ts';
import { variables } from '../../lib/contract/variables.ts';
import { packageFolder } from '../../local/installation.ts';
import { COMMON_HELP, defineCommand, wrongUse } from '../command.ts';
import { EXIT, type Output } from '../output.ts';

const HELP = `Usage: cluster-serving doctor [options]

Looks for known pitfalls before a deployment: in config.yaml, the parameters, the packaged template and the archives.
Says what was found, why it matters, what it should be and which setting to change. Asks nothing of AWS.

  -c, --config <file>     config.yaml to look at (default: ./config.yaml if there is one, else all defaults)
      --stage <name>      stage (default: that of the template, else dev); prod, prd and live are judged harder
      --param <n=v>       parameter of the deployment, as serverless takes it; may be given again
      --template <file>   packaged template (default: .serverless/cloudformation-template-update-stack.json if there)
      --package <dir>     folder with template and archives (default: that of the template)
      --package-now       run \`serverless package\` first, with this config, stage and parameters
      --strict            exit code 1 for warnings too
${COMMON_HELP}

Exit codes: 0 no error (with --strict: no warning either), 1 some, 2 wrong use or config`;

const DEFAULT_COLUMNS = 100;
/** Packaging takes about 10 s. */
const PACKAGE_MS = 300_000;
const MAX_OUTPUT_BYTES = 4 * 1024 * 1024;

export const doctor = defineCommand({
  name: 'doctor',
  help: HELP,
  options: {
    config: { type: 'string', short: 'c' },
    stage: { type: 'string' },
    param: { type: 'string', multiple: true },
    template: { type: 'string' },
    package: { type: 'string' },
    'package-now': { type: 'boolean' },
    strict: { type: 'boolean' },
  },
  async run(values, output) {
    const parameters = parametersOf(values.param ?? []);
    if (values.config !== undefined && parameters['config'] !== undefined)
      throw wrongUse('doctor: --config and --param config say the same; give one of them');
    const config = values.config ?? parameters['config'];
    const { stage, template, strict = false } = values;
    const request = { root: process.cwd(), project: projectFolder(), config, stage, parameters, template };
    if (!values['package-now'])
      return examined({ ...request, packageFolder: values.package }, strict, output);
    if (template !== undefined || values.package !== undefined)
      throw wrongUse(
        'doctor: --package-now makes the package; --template and --package name one that is there',
      );
    output.note('packaging, which takes some seconds');
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
  const archives = facts.archives?.size ?? 0;
  const document = {
    ok,
    stage: facts.stage,
    config: configFile ?? null,
    template: templateFile ?? null,
    archives,
    ...examination,
  };
  const title = [
    `stage ${facts.stage}`,
    configFile ? shown(configFile) : 'all defaults, no config.yaml',
    templateFile
      ? shown(templateFile)
      : 'NO TEMPLATE: settings only; `npx serverless package` or --package-now makes one',
    ...(templateFile && archives === 0 ? ['NO ARCHIVES beside it'] : []),
  ].join('; ');
  const colours = process.stdout.isTTY && !variables['NO_COLOR'];
  const columns = process.stdout.columns || DEFAULT_COLUMNS;
  output.answer(document, reportText(examination, { colours, columns, title }));
  return ok ? EXIT.ok : EXIT.failed;
}

function shown(path: string): string {
  const below = relative(process.cwd(), path);
  return below.startsWith('..') ? path : below;
}

/** The folder with serverless.yml: this one, or the package's own. */
function projectFolder(): string {
  const here = process.cwd();
  return existsSync(join(here, 'serverless.yml')) ? here : packageFolder();
}

function parametersOf(texts: readonly string[]): Record<string, string> {
  const parameters: Record<string, string> = {};
  for (const text of texts) {
    const at = text.indexOf('=');
    if (at < 1) throw wrongUse(`--param: expected <name>=<value>, got ${JSON.stringify(text)}`);
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
  await new Promise<void>((resolve, reject) => {
    execFile(process.execPath, [script, ...line], options, (error, stdout, stderr) => {
      if (!error) resolve();
      else reject(new ServingError('bad_config', `serverless package failed:\n${stdout}${stderr}`.trim()));
    });
  });
}

function serverlessScript(project: string): string {
  try {
    return createRequire(join(project, 'package.json')).resolve('serverless/bin/serverless.js');
  } catch (error) {
    throw new ServingError('bad_config', 'serverless is not installed here: npm install', { cause: error });
  }
}
