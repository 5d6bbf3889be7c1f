/**
 * Rules about the resources and variables of the functions. Memory is also CPU in Lambda: 1,769 MB are one vCPU. Memory,
 * /tmp and variables are read from the template if there is one, because serverless.yml is where they are edited.
 */
import { neededMB } from '../../onnx-import/index.ts';
import { type Facts, type Finding, type ImportFacts, megabytes, settingsRule, templateRule } from './rule.ts';
import { functionsOf, MODEL_FUNCTIONS, numberOf, recordOf, textOf } from './template.ts';

const LEAST_MODEL_MEMORY_MB = 512;
const DEFAULT_TMP_MB = 512;
/** Resident memory of the predict function without a model. */
const EMPTY_MB = 128;
const MB = 1024 * 1024;
const SECONDS_A_MONTH = 2_628_000;

interface Place {
  readonly where: string;
  readonly memoryMB: number;
  readonly tmpMB: number;
}

/** predict, batch and trials as deployed; without a template, as configured. */
function modelFunctions({ template, job }: Facts): Place[] {
  if (!template)
    return [{ where: 'predict and batch', memoryMB: job.function.memoryMB, tmpMB: DEFAULT_TMP_MB }];
  return functionsOf(template)
    .filter(({ name }) => MODEL_FUNCTIONS.has(name))
    .map(({ name, memoryMB, properties }) => {
      const size = numberOf(recordOf(properties['EphemeralStorage'])['Size']);
      return { where: name, memoryMB, tmpMB: size ?? DEFAULT_TMP_MB };
    });
}

/** Findings about the functions with less memory than this. */
function below(facts: Facts, leastMB: number, rest: Pick<Finding, 'severity' | 'expected'>): Finding[] {
  return modelFunctions(facts)
    .filter(({ memoryMB }) => memoryMB < leastMB)
    .map(({ where, memoryMB }) => ({ ...rest, where, found: `${memoryMB} MB` }));
}

const memoryRuntime = settingsRule({
  id: 'memory-onnxruntime',
  topic: 'Functions',
  looksAt: 'memory of predict, batch and trials',
  why: 'Node with onnxruntime takes 116 MB before any model, and below 512 MB there is less than a third of a vCPU: the model may not load within the 10 s of INIT.',
  fix: 'function.memoryMB in config.yaml; 1769 is one vCPU',
  check: (facts) =>
    below(facts, LEAST_MODEL_MEMORY_MB, {
      severity: 'warning',
      expected: `at least ${LEAST_MODEL_MEMORY_MB} MB`,
    }),
});

const memoryModel = settingsRule({
  id: 'memory-model',
  topic: 'Functions',
  looksAt:
    "memory of predict, batch and trials against the model's import report, or its size if there is none",
  why: 'Lambda ends a function that exceeds its memory without an answer, and delivers its batch again until the attempts are used up.',
  fix: 'function.memoryMB in config.yaml, or a smaller batchSize',
  check: (facts) => {
    const { model, job } = facts;
    if (model.state !== 'found') return [];
    const measured = model.importReport && memoryFor(model.importReport, job.batchSize);
    const needed = measured ?? Math.ceil(EMPTY_MB + model.bytes / MB);
    const reason = measured
      ? 'as measured in import-report.json'
      : `${EMPTY_MB} MB for Node and onnxruntime, and ${megabytes(model.bytes)} for the model`;
    return below(facts, needed, { severity: 'error', expected: `at least ${needed} MB (${reason})` });
  },
});

/** The memory for runs of batchSize rows. */
function memoryFor({ memoryMB, memory }: ImportFacts, batchSize: number): number | undefined {
  if (!memory) return memoryMB;
  return neededMB(memory, Math.min(batchSize, memory.mostRows ?? batchSize));
}

const ephemeralStorage = settingsRule({
  id: 'ephemeral-storage',
  topic: 'Functions',
  looksAt: '/tmp of predict, batch and trials against the size of the model',
  why: 'The model is downloaded to /tmp, and a new version beside the one in use: without room for two, a new version cannot be loaded.',
  fix: '--param tmpMB (512 to 10240)',
  check: (facts) => {
    const { model } = facts;
    if (!('bytes' in model)) return [];
    return modelFunctions(facts)
      .filter(({ tmpMB }) => 2 * model.bytes > tmpMB * MB)
      .map(({ where, tmpMB }) => ({
        severity: model.bytes > tmpMB * MB ? 'error' : 'warning',
        where,
        found: `${tmpMB} MB, and the model is ${megabytes(model.bytes)}`,
        expected: `at least ${Math.ceil((2 * model.bytes) / MB)} MB`,
      }));
  },
});

const tracing = settingsRule({
  id: 'tracing',
  topic: 'Functions',
  looksAt: 'tracing of every function',
  why: 'Only X-Ray shows how much of a slow request was spent in Lambda, S3 or Redis.',
  fix: '--param tracing=on (the default for prod); Lambda itself sends the traces, so the VPC needs no route for them',
  check: ({ settings }) => {
    if (settings.tracingMode === 'Active') return [];
    return [{ severity: 'info', where: '--param tracing', found: 'X-Ray is off', expected: 'on' }];
  },
});

const provisioned = settingsRule({
  id: 'provisioned-concurrency',
  topic: 'Functions',
  looksAt: 'environments of predict that are kept warm',
  why: 'Provisioned environments are billed every second of the month, used or not; a cold start of predict takes 0.2 s.',
  fix: '--param provisioned=0, unless cold starts cost more',
  check: ({ job, settings: { provisioned: count } }) => {
    if (count === 0) return [];
    const amount = Math.round((count * job.function.memoryMB * SECONDS_A_MONTH) / 1024).toLocaleString(
      'en-US',
    );
    const found = `${count} environments, ${amount} GB-seconds a month`;
    return [{ severity: 'info', where: '--param provisioned', found, expected: '0' }];
  },
});

/** Names of secrets, but not of their ARNs or names. */
const SECRET_NAME =
  /(passw(or)?d|passphrase|secret|token|api_?key|private_?key|access_?key|credentials?)(?!.*_(arn|id|name|url)$)/i;
const SECRET_VALUES: readonly (readonly [RegExp, string])[] = [
  [/:\/\/[^/\s@]*:[^/\s@]+@/, 'a url with a password'],
  [/\b(AKIA|ASIA)[0-9A-Z]{16}\b/, 'an AWS access key'],
  [/-----BEGIN [A-Z ]*PRIVATE KEY-----/, 'a private key'],
  [/\b(gh[pousr]_\w{30,}|xox[abp]-[\w-]{10,})\b/, 'a token of GitHub or Slack'],
  [/\{\{resolve:(secretsmanager|ssm-secure):/, 'a secret that CloudFormation resolves to plain text'],
];

/** For users who add variables to serverless.yml. A finding never contains a character of the value. */
const secrets = templateRule({
  id: 'secrets-in-environment',
  topic: 'Access',
  looksAt: 'names and values of variables that look like passwords, keys or tokens',
  why: 'Anybody with lambda:GetFunctionConfiguration can read the variables of a function, and they appear in templates and deployment logs.',
  fix: 'remove it from serverless.yml; roles need no keys, and functions can sign in to Redis with IAM',
  check: (template) =>
    functionsOf(template).flatMap(({ name, variables }) =>
      Object.entries(variables).flatMap(([variable, value]): Finding[] => {
        const text = textOf(value);
        const kind = SECRET_VALUES.find(([pattern]) => pattern.test(text))?.[1];
        const isNamed = SECRET_NAME.test(variable) && text !== '';
        if (kind === undefined && !isNamed) return [];
        const found = `${variable}: ${kind ?? 'named like a secret, with a value'}`;
        return [{ severity: 'error', where: name, found, expected: 'no secrets in variables' }];
      }),
    ),
});

export const FUNCTION_RULES = [memoryRuntime, memoryModel, ephemeralStorage, tracing, provisioned, secrets];
