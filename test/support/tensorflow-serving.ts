/** Calls the handler of the predict function as a client of TensorFlow Serving's REST API does, and models of its documentation. */
import type { PredictDeps } from '../../functions/predict.ts';
import type { DType } from '../../lib/contract/tensor.ts';
import type { Runner } from '../../lib/contract/values.ts';
import { handlerOf } from './inference-endpoint.ts';
import { onnxModel, type ValueSpec } from './onnx.ts';
import { answerOf, eventOf } from './open-inference.ts';

/** @returns the status and the text of the answer, to a POST with a body and to a GET without */
export function servingOf(runner: Runner, deps: Partial<PredictDeps> = {}) {
  const handle = handlerOf(runner, { jobName: 'half', ...deps });
  return async (path: string, body?: unknown, method = body === undefined ? 'GET' : 'POST') => {
    const text = typeof body === 'string' ? body : JSON.stringify(body ?? '');
    const headers = { 'content-type': 'application/json' };
    const event = eventOf({ body: Buffer.from(text), headers }, `/v1/models/${path}`, method);
    const { status, bytes } = answerOf(await handle(event));
    return { status, text: bytes.toString() };
  };
}

/** y = x / 2 + b, the model of TensorFlow Serving's own tests. */
export function halfPlus(b: number, shape: readonly (number | string)[] = ['N'], output = 'y'): Uint8Array {
  const weight = (name: string, value: number) => ({
    name,
    dtype: 'float32' as const,
    shape: [],
    data: Float32Array.of(value),
  });
  return onnxModel({
    inputs: [{ name: 'x', dtype: 'float32', shape }],
    outputs: [{ name: output, dtype: 'float32', shape }],
    weights: [weight('a', 0.5), weight('b', b)],
    nodes: [
      { op: 'Mul', inputs: ['x', 'a'], outputs: ['ax'] },
      { op: 'Add', inputs: ['ax', 'b'], outputs: [output] },
    ],
  });
}

/** The outputs are the inputs, by the names given. */
export function passing(
  values: Readonly<Record<string, readonly [dtype: DType, ...shape: (number | string)[]]>>,
  rename: Readonly<Record<string, string>> = {},
): Uint8Array {
  const specs = Object.entries(values).map(
    ([name, [dtype, ...shape]]): ValueSpec => ({ name, dtype, shape }),
  );
  const outputOf = (name: string) => rename[name] ?? `${name}_out`;
  return onnxModel({
    inputs: specs,
    outputs: specs.map((spec) => ({ ...spec, name: outputOf(spec.name) })),
    nodes: specs.map(({ name }) => ({ op: 'Identity', inputs: [name], outputs: [outputOf(name)] })),
  });
}

/** One operator without attributes, from `x` to `y`. */
export function oneOperator(
  op: string,
  from: readonly (number | string)[],
  to: readonly (number | string)[],
): Uint8Array {
  return onnxModel({
    inputs: [{ name: 'x', dtype: 'float32', shape: from }],
    outputs: [{ name: 'y', dtype: 'float32', shape: to }],
    nodes: [{ op, inputs: ['x'], outputs: ['y'] }],
  });
}
