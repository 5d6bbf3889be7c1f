/**
 * LSTM and RNN over sequences [T, N, ...], with a second input that is 0 where a new sequence begins. ONNX's LSTM
 * cannot reset in the middle, so the steps are a Scan. Caffe keeps the state between calls; here each call starts
 * with zeros.
 */
import { badModel } from '../../../../lib/contract/errors.ts';
import { formatShape } from '../../../../lib/contract/tensor.ts';
import { lstmStep, scan } from '../../../emit/recurrent.ts';
import type { GraphBuilder } from '../../../graph/builder.ts';
import { expectRank, fixedProduct, reshape } from '../../../graph/layout.ts';
import { fixed, known } from '../../../graph/shapes.ts';
import type { Value } from '../../../graph/value.ts';
import type { ConvertLayer, LayerNode } from '../node.ts';

interface Steps {
  readonly steps: number;
  readonly streams: number;
  readonly hidden: number;
  readonly exposed: boolean;
  /** Whether there is an input that is the same for all steps. */
  readonly hasStatic: boolean;
}

function stepsOf(node: LayerNode, states: number): Steps {
  node.bindBatch();
  const parameters = node.parameters('recurrent_param');
  const exposed = parameters.flag('expose_hidden');
  const [x, cont] = [node.input(0), node.input(1)];
  const [steps, streams] = [fixed(x, 0), fixed(x, 1)];
  expectRank(cont, 2);
  if (fixed(cont, 0) !== steps || fixed(cont, 1) !== streams)
    throw badModel(`the second input must be [${steps},${streams}], got ${formatShape(known(cont))}`);
  const hidden = parameters.number('num_output');
  if (hidden < 1) throw badModel(`num_output must be at least 1, got ${hidden}`);
  return { steps, streams, hidden, exposed, hasStatic: node.inputs.length > 2 + (exposed ? states : 0) };
}

/** W x + b for all steps at once, [T, N, size], with the static input's part. */
function transformed(
  node: LayerNode,
  { steps, streams, hasStatic }: Steps,
  size: number,
  weights: readonly Value[],
) {
  const [forInput, bias, forStatic] = weights;
  const rows = reshape(node, node.input(0), [steps * streams, fixedProduct(node.input(0), 2)]);
  const made = reshape(node, node.one('Gemm', [rows, forInput, bias], { transB: 1 }), [steps, streams, size]);
  if (!hasStatic) return made;
  const own = reshape(node, node.input(2), [streams, fixedProduct(node.input(2), 1)]);
  return node.one('Add', [made, node.one('Gemm', [own, forStatic], { transB: 1 })]);
}

function inputWeights(node: LayerNode, steps: Steps, size: number) {
  const wanted = [
    { name: 'input', shape: [size, fixedProduct(node.input(0), 2)] },
    { name: 'bias', shape: [size] },
  ];
  if (steps.hasStatic) wanted.push({ name: 'static', shape: [size, fixedProduct(node.input(2), 1)] });
  return wanted;
}

/** The states before the first step: zeros, or inputs of the layer. */
function initial(node: LayerNode, steps: Steps, states: number): Value[] {
  const { streams, hidden, exposed, hasStatic } = steps;
  const first = hasStatic ? 3 : 2;
  return Array.from({ length: states }, (_, i) =>
    exposed
      ? reshape(node, node.input(first + i), [streams, hidden])
      : node.g.floats(new Float32Array(streams * hidden), [streams, hidden]),
  );
}

/** All steps' results, then the last states when they are exposed. */
function tops(
  node: LayerNode,
  { streams, hidden, exposed }: Steps,
  made: readonly Value[],
): readonly Value[] {
  const all = made.at(-1) as Value;
  if (!exposed) return [all];
  return [all, ...made.slice(0, -1).map((state) => reshape(node, state, [1, streams, hidden]))];
}

/** The states, which are 0 where a new sequence begins. @param goesOn [streams] */
function kept(body: GraphBuilder, states: readonly Value[], goesOn: Value | undefined): Value[] {
  const column = body.one('Unsqueeze', [goesOn, body.ints([1])]);
  return states.map((state) => body.one('Mul', [state, column]));
}

const lstm: ConvertLayer = (node) => {
  const steps = stepsOf(node, 2);
  const size = 4 * steps.hidden;
  const weights = node.weights([
    ...inputWeights(node, steps, size),
    { name: 'hidden', shape: [size, steps.hidden] },
  ]);
  const gates = transformed(node, steps, size, weights);
  const recurrent = weights.at(-1) as Value;
  const made = scan(node, initial(node, steps, 2), [gates, node.input(1)], (body, states, [now, goesOn]) => {
    const [h, c] = kept(body, states, goesOn) as [Value, Value];
    const sums = body.one('Add', [body.one('Gemm', [h, recurrent], { transB: 1 }), now]);
    const { h: next, cs } = lstmStep(body, sums, c, { order: 'ifoc' });
    return [next, cs, next];
  });
  return tops(node, steps, made);
};

const rnn: ConvertLayer = (node) => {
  const steps = stepsOf(node, 1);
  const { hidden } = steps;
  const weights = node.weights([
    ...inputWeights(node, steps, hidden),
    { name: 'hidden', shape: [hidden, hidden] },
    { name: 'output', shape: [hidden, hidden] },
    { name: 'output_bias', shape: [hidden] },
  ]);
  const [recurrent, output, bias] = weights.slice(-3) as [Value, Value, Value];
  const gates = transformed(node, steps, hidden, weights);
  const made = scan(node, initial(node, steps, 1), [gates, node.input(1)], (body, states, [now, goesOn]) => {
    const [h] = kept(body, states, goesOn);
    const before = body.one('Gemm', [h, recurrent], { transB: 1 });
    const next = body.one('Tanh', [body.one('Add', [before, now])]);
    return [next, body.one('Tanh', [body.one('Gemm', [next, output, bias], { transB: 1 })])];
  });
  return tops(node, steps, made);
};

export const RECURRENCES: Readonly<Record<string, ConvertLayer>> = {
  LSTM: lstm,
  RNN: rnn,
};
