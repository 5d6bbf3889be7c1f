/**
 * Whether quantized nodes answer the same under every kernel of the processor's architecture, so that a comparison on one
 * processor holds on the others.
 */
import { graphsIn, type Model } from '../batching/model.ts';
import type { GraphNode } from '../graph/rows/node.ts';

/** Where a product has its second operand. */
const PRODUCTS: Readonly<Record<string, number>> = {
  MatMulInteger: 1,
  ConvInteger: 1,
  QLinearMatMul: 3,
  QLinearConv: 3,
  QGemm: 3,
  MatMulIntegerToFloat: 1,
  DynamicQuantizeMatMul: 1,
};
/** Without quantized numbers, unless DequantizeLinear makes their second operand. */
const FLOAT_PRODUCTS = ['MatMul', 'Gemm', 'Conv', 'ConvTranspose', 'Einsum'];
/** Those that compute with quantized numbers, and are not known to be the same everywhere. */
const UNKNOWN = /^Q(?!Linear|uantizeLinear|Gemm)[A-Z]|^DynamicQuantize(?!Linear|MatMul)|NBits|Bnb4/;
const QUANTIZED = /^(De|Dynamic)?Quantize|^QLinear/;
/** As ONNX numbers it. */
const INT8 = 3;

/**
 * On x64 a product is exact where its weights are constant; of int8 that nothing else uses, because the exact kernels need
 * them as uint8, and onnxruntime fails to rewrite shared ones.
 */
export function isSameOnEveryProcessor({ graph, functions }: Model, architecture: string): boolean {
  const bodies = [...functions.values()].flat().map(({ nodes }) => ({ nodes, weights: new Map() }));
  const graphs = [graph, ...bodies].flatMap((one) => [...graphsIn(one)]);
  const nodes = graphs.flatMap((one) => one.nodes);
  const isQuantized = ({ operator }: GraphNode) =>
    QUANTIZED.test(operator) || UNKNOWN.test(operator) || Object.hasOwn(PRODUCTS, operator);
  if (!nodes.some(isQuantized)) return true;
  if (architecture !== 'x64' || nodes.some(({ operator }) => UNKNOWN.test(operator))) return false;
  const types = new Map(graphs.flatMap((one) => [...one.weights].map(([name, { type }]) => [name, type])));
  const makers = new Map(nodes.flatMap((node) => node.outputs.map((name) => [name, node])));
  const isConstant = (name = '') => types.has(name) || makers.get(name)?.operator === 'Constant';
  const isExact = ({ operator, inputs }: GraphNode) => {
    if (Object.hasOwn(PRODUCTS, operator)) return isConstant(inputs[PRODUCTS[operator] as number]);
    const second = makers.get(inputs[1] ?? '');
    const isOfQuantized = FLOAT_PRODUCTS.includes(operator) && second?.operator === 'DequantizeLinear';
    return !isOfQuantized || isConstant(second.inputs[0]);
  };
  const used = nodes.flatMap(({ inputs }) => inputs.filter((name) => types.get(name) === INT8));
  return nodes.every(isExact) && new Set(used).size === used.length;
}
