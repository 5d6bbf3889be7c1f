/**
 * Converts elementwise operations that need several ONNX operations. TensorFlow's FloorDiv and FloorMod round down;
 * Mod, TruncateMod and Div round toward zero, and so does ONNX's Div.
 */
import { compute, FORMULAS } from '../../../emit/formula.ts';
import type { Value } from '../../../graph/value.ts';
import { flagAttribute, floatAttribute, typeAttribute } from '../graph.ts';
import { agree, type Compute, formula, isFloat } from './arithmetic.ts';
import { refuse } from './refuse.ts';
import type { OpTable } from './rule.ts';

/** A formula of both inputs in one dtype. */
function pair(text: string): Compute {
  return (on, inputs) => {
    const [x, y] = agree(on, inputs);
    return compute(on, text, { x, y });
  };
}

/** A formula of the input. */
function single(text: string): Compute {
  return (on, [x]) => compute(on, text, { x });
}

/** Minus its FloorMod, x divides without remainder, so rounding down and toward zero are the same. */
const floorDiv: Compute = (on, inputs) => {
  const [x, y] = agree(on, inputs);
  const isExact = x.dtype.startsWith('u') || areNatural(x, y);
  return compute(on, isFloat(x) ? 'Floor(x / y)' : isExact ? 'x / y' : '(x - Mod(x, y)) / y', { x, y });
};

/** Sizes are never negative, so a shape divided by a positive constant needs no correction. */
function areNatural(x: Value, y: Value): boolean {
  const natural = (value: Value) =>
    value.elements?.every((element) => typeof element === 'string' || (element !== undefined && element > 0));
  return natural(x) === true && natural(y) === true;
}

const floorMod: Compute = (on, inputs) => {
  const [x, y] = agree(on, inputs);
  const text = isFloat(x)
    ? 'rest = Mod(x, y, fmod=1); Where((x < 0) == (y < 0), rest, Mod(rest + y, y, fmod=1))'
    : 'Mod(x, y)';
  return compute(on, text, { x, y });
};

const castRule: Compute = (on, [x], node) => {
  const to = typeAttribute(node, 'DstT');
  if (typeof to !== 'string') refuse(`to ${to.unsupported} is not supported`);
  if (x.dtype === 'string' || to === 'string') refuse(`from ${x.dtype} to ${to} is not supported`);
  return on.cast(x, to);
};

const addN: Compute = (on, inputs) =>
  inputs.slice(1).reduce<Value>((sum, next) => on.one('Add', [sum, next]), inputs[0]);

function formulas(table: Readonly<Record<string, Compute>>): OpTable {
  return Object.fromEntries(Object.entries(table).map(([op, make]) => [op, formula(make)]));
}

export const UNARY_FORMULAS = formulas({
  Cast: castRule,
  Erfc: single(FORMULAS.erfc),
  Expm1: single(FORMULAS.expm1),
  IsFinite: single(FORMULAS.isFinite),
  LeakyRelu: (on, [x], node) =>
    compute(on, 'LeakyRelu(x, alpha=alpha)', { x, alpha: floatAttribute(node, 'alpha', 0.2) }),
  Log1p: single(FORMULAS.log1p),
  Relu: (on, [x]) => compute(on, isFloat(x) ? 'Relu(x)' : 'Max(x, 0)', { x }),
  Relu6: single('Clip(x, 0, 6)'),
  Rsqrt: single(FORMULAS.rsqrt),
  Square: single(FORMULAS.square),
  Gelu: (on, [x], node) =>
    compute(on, flagAttribute(node, 'approximate', true) ? FORMULAS.tanhGelu : FORMULAS.gelu, { x }),
  Swish: single(FORMULAS.swish),
  AddN: addN,
  AccumulateNV2: addN,
});

const fmod = pair('Mod(x, y, fmod=1)');

export const BINARY_FORMULAS = formulas({
  ApproximateEqual: (on, inputs, node) => {
    const [x, y] = agree(on, inputs);
    return compute(on, 'Abs(x - y) < tolerance', {
      x,
      y,
      tolerance: floatAttribute(node, 'tolerance', 1e-5),
    });
  },
  Atan2: (on, inputs) => {
    const [y, x] = agree(on, inputs);
    return compute(on, ATAN2, { x, y, pi: Math.PI });
  },
  DivNoNan: pair('Where(y == 0, 0, x / y)'),
  Equal: pair('x == y'),
  FloorDiv: floorDiv,
  FloorMod: floorMod,
  Mod: fmod,
  MulNoNan: pair('Where(y == 0, 0, x * y)'),
  NotEqual: pair('Not(x == y)'),
  SquaredDifference: pair(FORMULAS.squaredDifference),
  TruncateMod: fmod,
  Xdivy: pair('Where(x == 0, 0, x / y)'),
  Xlogy: pair('Where(x == 0, 0, x * Log(y))'),
  Xlog1py: (on, inputs) => {
    const [x, y] = agree(on, inputs);
    return compute(on, 'Where(x == 0, 0, x * log)', { x, log: compute(on, FORMULAS.log1p, { x: y }) });
  },
});

/** The signs select the quadrant. On the axes the quotient is infinite or 0, where atan is still right. */
const ATAN2 =
  'turn = Where(y < 0, -pi, pi); plain = Atan(y / x); angle = Where(x < 0, plain + turn, plain); ' +
  'Where(And(x == 0, y == 0), 0, angle)';
