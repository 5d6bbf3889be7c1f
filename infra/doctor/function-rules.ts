/**
 * In: the functions of a template and the model they serve. Out: what they would lack at run time.
 * Trap: memory is also CPU in Lambda (1,769 MB are one vCPU), and the API's 30 s are not ours to change.
 */

import { neededMB } from '../../convert/lambda-fit.ts';
import { functionsOf, MODEL_FUNCTIONS, routedFunctions } from './deployment.ts';
import {
  type Facts,
  type Finding,
  listed,
  type ModelPassport,
  megabytes,
  settingsRule,
  templateRule,
} from './rule.ts';
import { numberOf, type Properties, recordOf, resourcesOf, textOf } from './template.ts';

const RUNTIME = 'nodejs24.x';
const GATEWAY_SECONDS = 30;
const LEAST_MODEL_MEMORY_MB = 512;
const DEFAULT_TMP_MB = 512;
/** Resident memory of the predict function without a model. */
const EMPTY_MB = 128;
const MAX_ENVIRONMENT_BYTES = 4096;
const CROWDED_ENVIRONMENT_BYTES = 3584;
const MB = 1024 * 1024;
const SECONDS_A_MONTH = 2_628_000;

const runtime = templateRule({
  id: 'function-runtime',
  topic: 'Functions',
  looksAt: 'Runtime of every function',
  why: 'The bundles are built for Node 24; older runtimes lack what they use, and AWS no longer updates nodejs20.x and before.',
  fix: 'provider.runtime: nodejs24.x in serverless.yml',
  check: (template) =>
    functionsOf(template)
      .filter(({ properties }) => properties['PackageType'] !== 'Image' && properties['Runtime'] !== RUNTIME)
      .map(({ name, properties }) => {
        const found = textOf(properties['Runtime']) || 'no Runtime';
        return { severity: 'error', where: name, found, expected: RUNTIME };
      }),
});

const httpTimeout = templateRule({
  id: 'http-timeout',
  topic: 'Functions',
  looksAt: 'Timeout of a function behind a route',
  why: 'API Gateway answers 503 after 30 s whatever the function does; one that ends before gives an answer of its own.',
  fix: 'http.timeoutMs (at most 29000) in config.yaml for predict, timeout in serverless.yml for the others',
  check: (template) => {
    const routed = routedFunctions(template);
    return functionsOf(template)
      .filter((one) => routed.has(one.logicalName) && one.timeoutSeconds >= GATEWAY_SECONDS)
      .map(({ name, timeoutSeconds }) => ({
        severity: timeoutSeconds > GATEWAY_SECONDS ? 'error' : 'warning',
        where: name,
        found: `Timeout ${timeoutSeconds} s`,
        expected: `at most ${GATEWAY_SECONDS - 1} s`,
      }));
  },
});

interface Memory {
  readonly where: string;
  readonly memoryMB: number;
}

/** Of those that load the model. */
function modelMemory({ template, job }: Facts): Memory[] {
  if (!template) return [{ where: 'function.memoryMB', memoryMB: job.function.memoryMB }];
  return functionsOf(template)
    .filter(({ name }) => MODEL_FUNCTIONS.has(name))
    .map(({ name, memoryMB }) => ({ where: name, memoryMB }));
}

const memoryRuntime = settingsRule({
  id: 'memory-onnxruntime',
  topic: 'Functions',
  looksAt: 'memory of predict and batch',
  why: 'Node with onnxruntime takes 116 MB before any model, and below 512 MB there is under a third of a vCPU: the model may not load within the 10 s of INIT.',
  fix: 'function.memoryMB in config.yaml; 1769 is one vCPU',
  check: (facts) =>
    modelMemory(facts)
      .filter(({ memoryMB }) => memoryMB < LEAST_MODEL_MEMORY_MB)
      .map(({ where, memoryMB }) => ({
        severity: 'warning',
        where,
        found: `${memoryMB} MB`,
        expected: `at least ${LEAST_MODEL_MEMORY_MB} MB`,
      })),
});

const memoryModel = settingsRule({
  id: 'memory-model',
  topic: 'Functions',
  looksAt: "memory of predict and batch against the model's passport, or its size where there is none",
  why: 'A function over its memory is killed without an answer; a batch that does it comes back until its tries are used up.',
  fix: 'function.memoryMB in config.yaml, or a smaller batchSize',
  check: (facts) => {
    const { model } = facts;
    if (model.state !== 'found') return [];
    const measured = model.passport && memoryFor(model.passport, facts.job.batchSize);
    const needed = measured ?? Math.ceil(EMPTY_MB + model.bytes / MB);
    const reason = measured
      ? 'as passport.json measured it'
      : `${EMPTY_MB} MB for Node and onnxruntime, and the model's ${megabytes(model.bytes)}`;
    return modelMemory(facts)
      .filter(({ memoryMB }) => memoryMB < needed)
      .map(({ where, memoryMB }) => ({
        severity: 'error',
        where,
        found: `${memoryMB} MB`,
        expected: `at least ${needed} MB (${reason})`,
      }));
  },
});

/** With runs of this job's rows. */
function memoryFor({ memoryMB, memory }: ModelPassport, batchSize: number): number | undefined {
  if (!memory) return memoryMB;
  return neededMB(memory, Math.min(batchSize, memory.mostRows ?? batchSize));
}

const ephemeralStorage = settingsRule({
  id: 'ephemeral-storage',
  topic: 'Functions',
  looksAt: '/tmp of predict and batch against the size of the model',
  why: 'The model is downloaded to /tmp, and a new version beside the one that serves: twice its size, or the new one never gets there.',
  fix: 'ephemeralStorageSize of predict and batch in serverless.yml (512 to 10240 MB)',
  check: ({ template, model }) => {
    if (model.state !== 'found') return [];
    const places = template
      ? functionsOf(template)
          .filter(({ name }) => MODEL_FUNCTIONS.has(name))
          .map(({ name, properties }) => {
            const size = numberOf(recordOf(properties['EphemeralStorage'])['Size']);
            return { where: name, tmpMB: size ?? DEFAULT_TMP_MB };
          })
      : [{ where: 'predict and batch', tmpMB: DEFAULT_TMP_MB }];
    return places
      .filter(({ tmpMB }) => 2 * model.bytes > tmpMB * MB)
      .map(({ where, tmpMB }) => ({
        severity: model.bytes > tmpMB * MB ? 'error' : 'warning',
        where,
        found: `${tmpMB} MB, and the model is ${megabytes(model.bytes)}`,
        expected: `at least ${Math.ceil((2 * model.bytes) / MB)} MB`,
      }));
  },
});

/** What a reference becomes, roughly: an address of Redis, a url of a queue. */
const RESOLVED_BYTES = 100;

function environmentBytes(variables: Properties): number {
  return Object.entries(variables).reduce((sum, [name, value]) => {
    const bytes = typeof value === 'object' ? RESOLVED_BYTES : Buffer.byteLength(textOf(value));
    return sum + Buffer.byteLength(name) + bytes;
  }, 0);
}

const environmentSize = templateRule({
  id: 'environment-size',
  topic: 'Functions',
  looksAt: 'names and values of all variables of a function together',
  why: 'Lambda takes 4,096 bytes and refuses the function above; config.yaml travels in there.',
  fix: 'shorter settings in config.yaml (corsOrigins, postProcessing), fewer variables in serverless.yml',
  check: (template) =>
    functionsOf(template).flatMap(({ name, variables }): Finding[] => {
      const bytes = environmentBytes(variables);
      if (bytes <= CROWDED_ENVIRONMENT_BYTES) return [];
      return [
        {
          severity: bytes > MAX_ENVIRONMENT_BYTES ? 'error' : 'warning',
          where: name,
          found: `about ${bytes} bytes`,
          expected: `at most ${MAX_ENVIRONMENT_BYTES}, better ${CROWDED_ENVIRONMENT_BYTES}`,
        },
      ];
    }),
});

const tracing = templateRule({
  id: 'tracing',
  topic: 'Functions',
  looksAt: 'TracingConfig of every function',
  why: 'Without X-Ray nobody sees which part of a slow request was Lambda, S3 or Redis.',
  fix: '--param tracing=on (prod has it); Lambda itself sends the traces, our code needs no way out of the VPC',
  check: (template) => {
    const off = functionsOf(template)
      .filter(({ properties }) => recordOf(properties['TracingConfig'])['Mode'] !== 'Active')
      .map(({ name }) => name);
    if (off.length === 0) return [];
    return [
      { severity: 'info', where: listed(off), found: 'X-Ray is off', expected: 'TracingConfig.Mode: Active' },
    ];
  },
});

const provisioned = templateRule({
  id: 'provisioned-concurrency',
  topic: 'Functions',
  looksAt: 'ProvisionedConcurrencyConfig of versions and aliases',
  why: 'Provisioned environments are billed every second of the month, used or not; a cold start of predict takes 0.2 s.',
  fix: '--param provisioned=0, unless the cold start costs more',
  check: (template) =>
    resourcesOf(template, 'AWS::Lambda::Alias', 'AWS::Lambda::Version').flatMap(
      ([where, properties]): Finding[] => {
        const config = recordOf(properties['ProvisionedConcurrencyConfig']);
        const count = numberOf(config['ProvisionedConcurrentExecutions']);
        if (count === undefined) return [];
        const [target] = functionsOf(template).filter(({ logicalName }) =>
          textOf(properties['FunctionName']).includes(logicalName),
        );
        const gigabytes = (count * (target?.memoryMB ?? LEAST_MODEL_MEMORY_MB)) / 1024;
        const amount = Math.round(gigabytes * SECONDS_A_MONTH).toLocaleString('en-US');
        const found = `${count} environments, ${amount} GB-seconds a month`;
        return [{ severity: 'info', where, found, expected: 'none, unless cold starts cost more' }];
      },
    ),
});

export const FUNCTION_RULES = [
  runtime,
  httpTimeout,
  memoryRuntime,
  memoryModel,
  ephemeralStorage,
  environmentSize,
  tracing,
  provisioned,
];
