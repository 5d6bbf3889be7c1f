/**
 * In: the text of config.yaml. Out: a complete JobConfig, or one error with every problem in it.
 * Trap: the old system ignored unknown keys in silence; a typo then served with defaults for weeks. Here it is
 * refused, with the key that was probably meant. An empty value (`imageResize:`) means the default, as it always did.
 */
import { readFileSync } from 'node:fs';
import { parseDocument } from 'yaml';
import { z } from 'zod';
import { assertJobName } from '../contract/names.ts';
import { ServingError } from '../errors.ts';
import { parseFilter } from '../pipeline/filter.ts';
import { DEFAULT_JOB, type ImageConfig, type JobConfig } from './job.ts';
import { suggest } from './suggest.ts';

const MAX_CONFIG_BYTES = 1024 * 1024;

/** Runs a check of ours that throws, as a zod check with its message. */
function checkedBy(check: (text: string) => unknown) {
  return (text: string, context: z.RefinementCtx) => {
    try {
      check(text);
    } catch (error) {
      context.addIssue({ code: 'custom', message: ServingError.from(error).message });
    }
  };
}

const whole = (min: number, max: number) => z.number().int().min(min).max(max);
const perChannel = z
  .union([z.number(), z.array(z.number()).min(1).max(3)])
  .transform((value) => [value].flat());

const image = z.strictObject({
  width: whole(1, 16_384).optional(),
  height: whole(1, 16_384).optional(),
  channels: z.enum(['bgr', 'rgb', 'grey']).optional(),
  layout: z.enum(['chw', 'hwc']).optional(),
  scale: z.number().optional(),
  mean: perChannel.optional(),
  std: perChannel.optional(),
});

const queue = z.strictObject({
  batchSize: whole(1, 10_000).optional(),
  windowSeconds: whole(0, 300).optional(),
  maximumConcurrency: whole(2, 1_000).optional(),
  maxReceiveCount: whole(1, 1_000).optional(),
});

const lambda = z.strictObject({
  memoryMB: whole(128, 10_240).optional(),
  timeoutSeconds: whole(1, 900).optional(),
});

const schema = z.strictObject({
  modelPath: z.string().min(1).optional(),
  jobName: z.string().superRefine(checkedBy(assertJobName)).optional(),
  postProcessing: z.string().superRefine(checkedBy(parseFilter)).optional(),
  /** Height and width, as the old config has it: `224,448`. */
  imageResize: z
    .union([
      z.string().regex(/^\d+\s*,\s*\d+$/, 'expected "height,width"'),
      z.tuple([whole(1, 16_384), whole(1, 16_384)]),
    ])
    .optional(),
  image: image.optional(),
  inputAlreadyBatched: z.boolean().optional(),
  batchSize: whole(1, 10_000).optional(),
  threadPerModel: whole(0, 64).optional(),
  modelRefreshSeconds: whole(1, 86_400).optional(),
  resultTtlSeconds: whole(1, 14 * 86_400).optional(),
  queue: queue.optional(),
  function: lambda.optional(),
});

/** @throws bad_config with every problem, one a line */
export function readConfigFile(path: string): JobConfig {
  let text: string;
  try {
    text = readFileSync(path, 'utf8');
  } catch (error) {
    throw new ServingError('bad_config', `config ${path} cannot be read: ${(error as Error).message}`, {
      cause: error,
    });
  }
  return parseConfig(text, path);
}

/** @param name what errors call the text, e.g. its path */
export function parseConfig(text: string, name: string): JobConfig {
  if (Buffer.byteLength(text) > MAX_CONFIG_BYTES) {
    throw new ServingError('bad_config', `${name}: over the limit of ${MAX_CONFIG_BYTES} bytes`);
  }
  const document = parseDocument(text, { prettyErrors: true });
  const [yamlError] = document.errors;
  if (yamlError) throw new ServingError('bad_config', `${name} is not YAML: ${yamlError.message}`);
  const parsed = schema.safeParse(withoutEmpty(document.toJS({ maxAliasCount: 100 }) ?? {}));
  if (!parsed.success)
    throw new ServingError('bad_config', `${name}:\n${parsed.error.issues.flatMap(lines).join('\n')}`);
  const {
    imageResize,
    image: imageValues,
    queue: queueValues,
    function: lambdaValues,
    ...rest
  } = parsed.data;
  const job = {
    ...DEFAULT_JOB,
    ...rest,
    image: { ...resizeOf(imageResize), ...imageValues } as ImageConfig,
    queue: { ...DEFAULT_JOB.queue, ...queueValues },
    function: { ...DEFAULT_JOB.function, ...lambdaValues },
  } as JobConfig;
  const problems = crossChecks(job);
  if (problems.length > 0) throw new ServingError('bad_config', `${name}:\n${problems.join('\n')}`);
  return job;
}

function resizeOf(resize: string | [number, number] | undefined): ImageConfig {
  if (resize === undefined) return {};
  const [height, width] = typeof resize === 'string' ? resize.split(',').map(Number) : resize;
  return { height: height as number, width: width as number };
}

/** Rules between keys. */
function crossChecks({ queue: { batchSize, windowSeconds }, image: { width, height } }: JobConfig): string[] {
  const problems: string[] = [];
  if (batchSize > 10 && windowSeconds < 1) {
    problems.push(
      `  queue.batchSize: ${batchSize} needs queue.windowSeconds >= 1 (SQS gathers more than 10 only in a window)`,
    );
  }
  if ((width === undefined) !== (height === undefined))
    problems.push('  image: width and height go together');
  return problems;
}

/** `key:` without a value is YAML null; here it is as if the line were not there. */
function withoutEmpty(value: unknown): unknown {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value;
  const entries = Object.entries(value).filter(([, inner]) => inner !== null);
  return Object.fromEntries(entries.map(([key, inner]) => [key, withoutEmpty(inner)]));
}

function lines(issue: z.core.$ZodIssue): string[] {
  const path = issue.path.join('.');
  if (issue.code !== 'unrecognized_keys') return [`  ${path === '' ? 'the file' : path}: ${issue.message}`];
  return issue.keys.map((key) => {
    const meant = suggest(key, keysAt(issue.path));
    const full = [...issue.path, key].join('.');
    return `  ${full}: unknown key${meant ? `; did you mean ${meant}?` : `; known are ${keysAt(issue.path).join(', ')}`}`;
  });
}

function keysAt(path: readonly PropertyKey[]): string[] {
  const shapes: Record<string, object> = { image: image.shape, queue: queue.shape, function: lambda.shape };
  return Object.keys(shapes[String(path[0])] ?? schema.shape);
}
