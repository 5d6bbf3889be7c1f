/**
 * Models that add a given number, in a folder and in a bucket. x stays below STEP, so the sum alone shows which model
 * answered.
 */
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { decodeInstances } from '../../../lib/codecs/instances.ts';
import { openModel } from '../../../lib/compose/model.ts';
import { ServingError } from '../../../lib/contract/errors.ts';
import type { Runner } from '../../../lib/contract/values.ts';
import { startAws } from '../../../local/aws/aws.ts';
import { onnxModel } from '../../support/onnx.ts';
import { type Hooks, temporaryFolder } from '../../support/runner.ts';

export const LOCATION = { bucket: 'models', prefix: 'models/job/' };
export const QUIET = { info: () => undefined, warn: () => undefined, error: () => undefined };

export const STEP = 10_000;

/** y = x + number * STEP. */
export function addModel(number: number): Uint8Array {
  return onnxModel({
    inputs: [{ name: 'x', dtype: 'float32', shape: ['N', 1] }],
    outputs: [{ name: 'y', dtype: 'float32', shape: ['N', 1] }],
    nodes: [{ op: 'Add', inputs: ['x', 'n'], outputs: ['y'] }],
    weights: [{ name: 'n', dtype: 'float32', shape: [1], data: Float32Array.of(number * STEP) }],
  });
}

/** The number of the model that made y of x; not a whole number if no model gave that answer. */
export const numberOf = (x: number, y: number): number => (y - x) / STEP;

export async function modelFolder(t: Hooks, bytes: Uint8Array): Promise<string> {
  const folder = await temporaryFolder(t);
  await writeFile(join(folder, 'model.onnx'), bytes);
  return folder;
}

/** A folder with a folder for each model. */
export async function modelsFolder(t: Hooks, models: Readonly<Record<string, Uint8Array>>): Promise<string> {
  const folder = await temporaryFolder(t, 'cs-models-');
  for (const [name, bytes] of Object.entries(models)) {
    await mkdir(join(folder, name));
    await writeFile(join(folder, name, 'model.onnx'), bytes);
  }
  return folder;
}

export async function modelBucket(t: TestContext) {
  const aws = await startAws({ port: 0, log: QUIET });
  t.after(() => aws.close());
  await aws.createBucket(LOCATION.bucket);
  return aws.s3;
}

/** A model manager that looks for a new version only on request. */
export async function openHost(t: TestContext, s3: Awaited<ReturnType<typeof modelBucket>>, folder?: string) {
  const errors: ServingError[] = [];
  const directory = folder ?? (await temporaryFolder(t));
  const model = openModel({
    s3,
    location: LOCATION,
    directory,
    settings: { threads: 1, batchSize: 8, inputAlreadyBatched: false, image: {} },
    refreshMs: 1e9,
    now: () => 0,
    onError: (error) => errors.push(error),
  });
  t.after(() => model.close());
  /** The number of the model that serves. */
  const serving = () => model.use(numberFrom);
  return { model, errors, directory, serving };
}

export const ONE = () => decodeInstances('{"instances":[{"x":1}]}');

export async function numberFrom(runner: Pick<Runner, 'run'>): Promise<number> {
  const [outcome] = await runner.run(ONE());
  if (!outcome?.ok) throw outcome?.error ?? new ServingError('internal', 'no outcome');
  return numberOf(1, Number(outcome.outputs[0]?.data[0]));
}
