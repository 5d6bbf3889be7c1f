/** Asks a model one made-up request through each endpoint, before anybody else does. */
import type { OnnxRunner } from '../../lib/compose/onnx.ts';
import { badModel, ServingError } from '../../lib/contract/errors.ts';
import { LIMITS } from '../../lib/contract/limits.ts';
import type { Tensor } from '../../lib/contract/tensor.ts';
import type { TensorSpec, Value } from '../../lib/contract/values.ts';
import { AS_WRITTEN } from '../../lib/contract/verification.ts';
import { openSession } from '../../lib/inference/session.ts';
import type { Filter } from '../../lib/pipeline/answer/postprocess.ts';
import { batchAxisOf, batchSize } from '../../lib/pipeline/batch/batch-axes.ts';
import type { ImageChoice } from '../../lib/pipeline/bind/image-choice.ts';
import { PROMPT_INPUT } from '../../lib/text/runner.ts';
import { axisLines, proposedAxes } from '../axis-proposal.ts';
import { type Hints, hintsOf } from '../batching/hints.ts';
import { madeUpRow, waysToMakeUp } from '../batching/probe-values.ts';
import { type GivenShapes, withGivenSizes } from '../check/given-sizes.ts';
import { layoutOf, takesImages } from '../image-reading.ts';
import { endpointsOf, greyPicture, recordValue } from './endpoints.ts';

export interface GateOptions {
  /** Inputs of unknown rank, which onnxruntime reports as scalars. */
  readonly shapeless: readonly string[];
  /** What the user gives where the file leaves sizes free. */
  readonly sizes?: GivenShapes;
  readonly inputAlreadyBatched: boolean;
  readonly filter: Filter | undefined;
  /** The settings of images. Where there are any, a picture is sent as well. */
  readonly image: ImageChoice;
}

/** Without the input that takes the name of a prompt, which cannot be made up. */
export function withoutPrompts(runner: OnnxRunner): OnnxRunner {
  return {
    ...runner,
    inputs: runner.inputs.filter(({ name, isText }) => !(isText && name === PROMPT_INPUT)),
  };
}

/** Of all candidates of made-up values; the first is asked however large it is. */
const MOST_ELEMENTS = 5e6;
/** Pixels. */
const PICTURE_SIDE = 64;
/** An element and its comma in JSON. */
const LEAST_BYTES = 2;

/**
 * Passes when one made-up record is answered by every endpoint, and when the model itself takes none, so that nothing is
 * known.
 * @returns the inputs that were answered, with one row; undefined when none were sent
 * @throws bad_model with the endpoint and its answer when the model runs, but no request reaches it
 */
export async function assertReachable(
  file: string,
  opened: OnnxRunner,
  options: GateOptions,
): Promise<readonly Tensor[] | undefined> {
  const runner = withoutPrompts(opened);
  const endpoints = endpointsOf({ use: (work) => work(runner) }, options.filter);
  const asked = { ...options, hints: hintsOf(file) };
  let refusal: ServingError | undefined;
  for (const feeds of candidates(runner.inputs, asked)) {
    // No endpoint takes it dense, and only its text would take seconds to make. Sparse values cannot be made up.
    if (elementsOf(feeds) * LEAST_BYTES > LIMITS.httpBodyBytes) return undefined;
    try {
      await endpoints.ask(runner.inputs, feeds, options.inputAlreadyBatched);
      await assertPictures(runner, feeds, options);
      return feeds;
    } catch (error) {
      const refused = ServingError.from(error);
      if (!refusal || (isShapes(refused) && !isShapes(refusal))) refusal = refused;
    }
  }
  if (!refusal) return undefined;
  const isText = runner.inputs.some((input) => input.isText);
  const runs = isText || isShapes(refusal) || (await runsAtAll(file, candidates(runner.inputs, asked)));
  if (!runs) return undefined;
  const lines = axisLines(proposedAxes(runner.inputs, options.shapeless));
  const advice = lines.length === 0 ? '' : `; config.yaml may need these lines:\n${lines.join('\n')}`;
  throw badModel(`no request reaches the model: ${refusal.message}${advice}`);
}

function elementsOf(feeds: readonly Tensor[]): number {
  return feeds.reduce((sum, { data }) => sum + data.length, 0);
}

/**
 * Sends a picture for each input that takes one.
 * @throws bad_model when the settings of images do not fit the model. What the model itself says of it is not known to be
 * their fault.
 */
async function assertPictures(
  runner: OnnxRunner,
  feeds: readonly Tensor[],
  { image, inputAlreadyBatched }: GateOptions,
): Promise<void> {
  if (Object.keys(image).length === 0 || inputAlreadyBatched) return;
  const bytes = await greyPicture(PICTURE_SIDE, PICTURE_SIDE);
  const values = runner.inputs.map((spec, i): [string, Value] => {
    const tensor = feeds[i] as Tensor;
    if (takesImages(spec, layoutOf(image))) return [spec.name, { kind: 'image', bytes }];
    return [spec.name, { kind: 'json', value: recordValue(spec, tensor, false) }];
  });
  const [outcome] = await runner.run([new Map(values)]);
  if (!outcome || outcome.ok || !['bad_config', 'bad_input'].includes(outcome.error.code)) return;
  throw new ServingError(
    outcome.error.code,
    `a picture, under the settings of image: ${outcome.error.message}`,
  );
}

/** Whether the shapes of the request are at fault, which are those that the model declares, and not its values. */
function isShapes({ code, message }: ServingError): boolean {
  return code === 'bad_input' || /invalid (dimensions|rank) for input/i.test(message);
}

/** One row for each size and range of values, the likeliest first. */
function* candidates(
  declared: readonly TensorSpec[],
  { hints, ...options }: Pick<GateOptions, 'shapeless' | 'sizes'> & { readonly hints: Hints },
): Generator<readonly Tensor[]> {
  const { inputs, shapeless } = withGivenSizes(declared, options.shapeless, options.sizes);
  let elements = 0;
  for (const { specs, ...way } of waysToMakeUp(inputs, shapeless, withOneRow)) {
    if (elements > MOST_ELEMENTS) return;
    const feeds = specs.map((spec, input) => madeUpRow(spec, { ...way, hints, axis: 'none', row: 0, input }));
    elements += elementsOf(feeds);
    yield feeds;
  }
}

/** With one row wherever the size of the batch is named. A batch axis of a fixed size stays as the model has it. */
function withOneRow(specs: readonly TensorSpec[]): TensorSpec[] {
  const names = new Set(specs.map(batchSize).filter((size) => typeof size === 'string'));
  return specs.map((spec) => {
    const isBatch = (dim: number | string, axis: number) =>
      typeof dim === 'string' && (axis === batchAxisOf(spec) || (dim !== '' && names.has(dim)));
    return { ...spec, shape: spec.shape.map((dim, axis) => (isBatch(dim, axis) ? 1 : dim)) };
  });
}

async function runsAtAll(file: string, feedsToTry: Iterable<readonly Tensor[]>): Promise<boolean> {
  const session = await openSession(file, { threads: 1, optimization: AS_WRITTEN });
  try {
    for (const feeds of feedsToTry) {
      const ran = await session.run(feeds).then(
        () => true,
        () => false,
      );
      if (ran) return true;
    }
    return false;
  } finally {
    await session.close();
  }
}
