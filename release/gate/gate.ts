/** Asks a model one made-up request through each endpoint, before anybody else does. */

import type { OnnxRunner } from '../../lib/compose/onnx.ts';
import { badModel, ServingError } from '../../lib/contract/errors.ts';
import { LIMITS } from '../../lib/contract/limits.ts';
import { elementAt } from '../../lib/contract/present.ts';
import type { Tensor } from '../../lib/contract/tensor.ts';
import type { Value } from '../../lib/contract/values.ts';
import { AS_WRITTEN } from '../../lib/contract/verification.ts';
import { openSession } from '../../lib/inference/session.ts';
import type { Filter } from '../../lib/pipeline/answer/postprocess.ts';
import type { ImageChoice } from '../../lib/pipeline/bind/image-choice.ts';
import { PROMPT_INPUT } from '../../lib/text/runner.ts';
import { axisLines, layoutOf, proposedAxes, takesImages } from '../../onnx-import/index.ts';
import { elementsOf, type SingleRowOptions, singleRows } from '../../onnx-import/inputs.ts';
import { endpointsOf, greyPicture, recordValue } from './endpoints.ts';

export interface GateOptions extends SingleRowOptions {
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
  let refusal: ServingError | undefined;
  for (const feeds of singleRows(file, runner.inputs, options)) {
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
  const runs =
    isText || isShapes(refusal) || (await runsAtAll(file, singleRows(file, runner.inputs, options)));
  if (!runs) return undefined;
  const lines = axisLines(proposedAxes(runner.inputs, options.shapeless));
  const advice = lines.length === 0 ? '' : `; config.yaml may need these lines:\n${lines.join('\n')}`;
  throw badModel(`no request reaches the model: ${refusal.message}${advice}`);
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
    const tensor = elementAt(feeds, i, 'feeds');
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

/** True if the shapes of the request are at fault, which are those that the model declares, and not its values. */
function isShapes({ code, message }: ServingError): boolean {
  return code === 'bad_input' || /invalid (dimensions|rank) for input/i.test(message);
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
