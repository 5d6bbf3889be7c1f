/**
 * `cluster-serving doctor`: reports pitfalls in the settings and in the package, each with its reason and a fix, and
 * what the stack costs idle. It changes nothing. Only with --account does it call AWS.
 */
import { execFile } from 'node:child_process';
import { createRequire } from 'node:module';
import { join, relative } from 'node:path';
import { promisify } from 'node:util';
import type { FactsRequest } from '../../infra/doctor/facts.ts';
import { sharedStackOf } from '../../infra/doctor/template.ts';
import { ServingError } from '../../lib/contract/errors.ts';
import { variables } from '../../lib/contract/variables.ts';
import { accountAnswers, accountText, deploymentRegion } from '../account.ts';
import { defineCommand, wrongUse } from '../command.ts';
import { DEPLOYMENT_OPTIONS, deploymentRequest } from '../deployment-options.ts';
import { EXIT, type Output } from '../output.ts';

const DEFAULT_COLUMNS = 100;
/** Packaging takes about 10 s. */
const PACKAGE_MS = 300_000;
const MAX_OUTPUT_BYTES = 4 * 1024 * 1024;

export const command = defineCommand({
  name: 'doctor',
  about: `Looks for known pitfalls before a deployment: in config.yaml, the parameters, the packaged template and the
archives. For each it prints what was found, why it matters, what it should be and which setting to change, and then
what the stack costs a month without a request. With --account it asks the AWS account too: limits, zones, and names
that are taken.
Exit code: 0 no error (with --strict: no warning either), 1 some, 2 wrong use or config.`,
  options: {
    ...DEPLOYMENT_OPTIONS,
    stage: {
      value: 'name',
      about: "stage (default: the template's, else dev); stricter for prod, prd and live",
    },
    package: { value: 'dir', about: "folder with template and archives (default: the template's)" },
    'package-now': { about: 'run `serverless package` first, with this config, stage and parameters' },
    account: {
      about: 'also ask the AWS account what would stop a deployment, by calls that only read',
    },
    region: { value: 'name', about: 'region, for --account (default: AWS_REGION, else us-east-1)' },
    strict: { about: 'exit code 1 for warnings too' },
  },
  async run(values, output) {
    const request = deploymentRequest('doctor', values);
    const { template, package: folder, strict = false, account = false } = values;
    if (values.region !== undefined && !account) throw wrongUse('doctor: --region belongs to --account');
    const options = { strict, region: account ? deploymentRegion(values.region) : undefined };
    if (!values['package-now']) return examined({ ...request, packageFolder: folder }, options, output);
    if ((template ?? folder) !== undefined)
      throw wrongUse(
        'doctor: --package-now makes the package; --template and --package name an existing one',
      );
    output.note('packaging, which takes a few seconds');
    await packageNow(request);
    return examined({ ...request, packageFolder: '.serverless' }, options, output);
  },
});

interface Examined {
  readonly strict: boolean;
  /** Undefined: the account is not asked. */
  readonly region: string | undefined;
}

async function examined(request: FactsRequest, options: Examined, output: Output): Promise<number> {
  const { strict, region } = options;
  const { readFacts } = await import('../../infra/doctor/facts.ts');
  const { examine } = await import('../../infra/doctor/examine.ts');
  const { reportText } = await import('../../infra/doctor/report.ts');
  const { idlePrice, idlePriceText } = await import('../../infra/doctor/idle-price.ts');
  const { redisKindText } = await import('../../infra/doctor/kinds.ts');
  const { capacityOf, capacityText } = await import('../../infra/doctor/capacity.ts');
  const { budgetFacts, budgetText } = await import('../../infra/doctor/budget.ts');
  const { facts, configFile, templateFile } = await readFacts(request);
  const shared = facts.template && sharedStackOf(facts.template);
  if (shared && region !== undefined)
    throw wrongUse(
      'doctor: --account asks about the stack of a job; the packaged one is of shared-redis.yml',
    );
  // The rules are about the stack of a job.
  const examination = examine(facts, shared && []);
  const account = region === undefined ? null : await accountAnswers(facts, request, region);
  const count = (kind: 'error' | 'warning') =>
    examination.counts[kind] + (account ?? []).filter((answer) => answer.kind === kind).length;
  const ok = count('error') === 0 && (!strict || count('warning') === 0);
  const stage = shared?.stage ?? facts.stage;
  const archives = facts.archives?.size ?? 0;
  const places = { config: configFile ?? null, template: templateFile ?? null };
  const title = [
    `${shared ? 'shared Redis, ' : ''}stage ${stage}`,
    configFile ? shown(configFile) : 'all defaults, no config.yaml',
    templateFile
      ? shown(templateFile)
      : 'NO TEMPLATE: settings only; --package-now makes one, beside the serverless.yml of `cluster-serving init --deploy`',
    ...(templateFile && archives === 0 && !shared ? ['NO ARCHIVES beside it'] : []),
  ].join('; ');
  const idle = facts.template ? idlePrice(facts.template) : null;
  const capacity = shared ? null : capacityOf(facts.settings, facts.job);
  const budget = shared ? null : budgetFacts(facts.settings, facts.job);
  const colours = process.stdout.isTTY && !variables['NO_COLOR'];
  const columns = process.stdout.columns || DEFAULT_COLUMNS;
  const report = reportText(examination, { colours, columns, title });
  const text = [
    report,
    ...(idle ? [idlePriceText(idle)] : []),
    ...(capacity ? [capacityText(capacity), redisKindText(facts.settings.files.redis)] : []),
    ...(budget ? [budgetText(budget)] : []),
    ...(account ? [`\n${accountText(account)}`] : []),
  ];
  const document = { ok, stage, ...places, archives, idle, capacity, budget, account, ...examination };
  output.answer(document, text.join('\n'));
  return ok ? EXIT.ok : EXIT.failed;
}

function shown(path: string): string {
  const below = relative(process.cwd(), path);
  return below.startsWith('..') ? path : below;
}

/** Runs `serverless package` with the same options, and leaves its output in place. */
async function packageNow({ root, project, config, stage, parameters }: Omit<FactsRequest, 'packageFolder'>) {
  if (project !== root)
    throw wrongUse(
      'doctor --package-now: there is no serverless.yml in this folder; `cluster-serving init --deploy` writes one',
    );
  // The sample's config follows from its parameter.
  const isNamed = config !== undefined && parameters['sample'] !== 'on';
  const all = isNamed ? { ...parameters, config } : parameters;
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
