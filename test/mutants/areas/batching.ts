/** Bugs in the proof that records may share a run: rules of operators, functions of the file, arithmetic on sizes. */
import type { Suite } from '../mutant.ts';

const RULES = 'test/convert/batching/rules.test.ts';
const FUNCTIONS = 'test/convert/batching/functions.test.ts';
const FOLDING = 'test/convert/batching/folding.test.ts';
const FOLDED = 'test/convert/folded.test.ts';

export const BATCHING: readonly Suite[] = [
  {
    file: 'convert/batching/rules/joining.ts',
    tests: [RULES],
    bugs: [
      {
        guarantee: 'a Split along the batch axis ends the proof',
        find: "if (x.kind === 'rows' && x.axis === axis) call.end('it splits the batch axis');",
        replace: '',
      },
      {
        guarantee: 'a slice to the end with a negative step reaches the beginning',
        find: 'if (step < 0 && end >= TO_THE_END) return undefined;',
        replace: '',
        tests: [FOLDING],
      },
    ],
  },
  {
    file: 'convert/batching/rules/reductions.ts',
    tests: [RULES],
    bugs: [
      {
        guarantee: 'a LayerNormalization from the batch axis on ends the proof',
        find: 'const axes = shape.map((_, axis) => axis).slice(first);',
        replace: 'const axes = shape.map((_, axis) => axis).slice(Math.max(1, first));',
      },
    ],
  },
  {
    file: 'convert/batching/rules/matmul.ts',
    tests: [RULES],
    bugs: [
      {
        guarantee: 'a MatMul with another matrix for each row ends the proof',
        find: 'isBatch && numberOf(other.shape[one.axis]) !== 1',
        replace: 'isBatch && other.shape.length < 3',
      },
    ],
  },
  {
    file: 'convert/batching/rules/layout.ts',
    tests: [RULES],
    bugs: [
      {
        guarantee: 'an empty list of axes squeezes all',
        find: 'return axes?.length === 0 ? undefined : axes;',
        replace: 'return axes;',
      },
      {
        guarantee: 'a negative size of a shape ends the proof',
        find: "if (element.factor < 0 && element.names.length > 0) call.end('its shape has a negative size');",
        replace: '',
      },
    ],
  },
  {
    file: 'convert/batching/rules/arithmetic.ts',
    tests: [FOLDING],
    bugs: [
      {
        guarantee: 'floats and narrow integers are not computed with',
        find: 'if (bits === undefined || ',
        replace: 'if (bits === undefined) return true;\n  if (',
      },
      {
        guarantee: 'an integer beyond 2^53 is not known',
        find: '!Number.isSafeInteger(factor) || ',
        replace: '',
      },
      {
        guarantee: 'a product of sizes that its type may not hold is not known',
        find: ' * LARGEST_SIZE ** names.length <= ',
        replace: ' <= ',
      },
      {
        guarantee: 'an integer that its type does not hold is not known',
        find: 'LARGEST_SIZE ** names.length <= 2 ** bits - 1',
        replace: 'LARGEST_SIZE ** names.length <= 2 ** 63',
      },
      {
        guarantee: 'a cast to float rounds',
        find: 'Math.fround(number) === number ? element : undefined',
        replace: 'element',
      },
    ],
  },
  {
    file: 'convert/graph/fold.ts',
    tests: [FOLDED],
    bugs: [
      {
        guarantee: 'a float that the type of a cast does not hold is left to the run',
        find: 'if (isFloat(tensor.dtype) && !whole.every((value) => holds(to, value))) return undefined;',
        replace: '',
      },
      {
        guarantee: 'the remainder of whole numbers has the sign that the node says',
        find: 'if (int(attributes.fmod, 0) === 1) return binary((a, b) => a % b)(inputs, attributes);',
        replace: '',
      },
      {
        guarantee: 'a sum that its type does not hold is left to the run',
        find: 'if (isWhole && !values.every((value) => holds(tensor.dtype, value))) return undefined;',
        replace: '',
      },
      {
        guarantee: 'a power that its type does not hold is left to the run',
        find: 'return isFloat(dtype) || holds(dtype, result) ? result : Number.NaN;',
        replace: 'return result;',
      },
      {
        guarantee: 'whole numbers beyond 2^53 are left to the run',
        find: '!dtype && !values.every((value) => Number.isSafeInteger(value))',
        replace: '!dtype && !values.every(Number.isFinite)',
      },
    ],
  },
  {
    file: 'convert/graph/elements.ts',
    tests: [FOLDED],
    bugs: [
      {
        guarantee: 'a size that wraps in the run is not known',
        find: 'Number.isSafeInteger(element) && holds(dtype, element)',
        replace: 'Number.isSafeInteger(element)',
      },
      {
        guarantee: 'a folded slice to the end with a negative step reaches the beginning',
        find: 'end === TO_THE_END ? -1 : ',
        replace: '',
      },
    ],
  },
  {
    file: 'convert/batching/analyse.ts',
    tests: [FUNCTIONS],
    bugs: [
      {
        guarantee: 'a function is looked up by its overload',
        find: 'functionKey(domain, operator, node.overload)',
        replace: "functionKey(domain, operator, '')",
      },
      {
        guarantee: 'a function with the name of a standard operator ends the proof',
        find: 'if (RUNTIME_DOMAINS.test(node.domain)) ',
        replace: "if (node.domain === 'none') ",
      },
      {
        guarantee: 'two functions of one name end the proof',
        find: '!called || others.length > 0',
        replace: '!called',
      },
      {
        guarantee: 'a function of another operator set than the model ends the proof',
        find: 'if ([...called.opsets].some(isOther)) ',
        replace: "if (node.domain === 'none') ",
      },
    ],
  },
];
