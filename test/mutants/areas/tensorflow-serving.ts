/** Bugs in TensorFlow Serving's REST API: its forms, its numbers, what is one batch, and what is refused. */
import type { Suite } from '../mutant.ts';

const ANSWERS = 'test/lib/http/tensorflow-serving.test.ts';
const REFUSALS = 'test/lib/http/tensorflow-serving-refusals.test.ts';

export const TENSORFLOW_SERVING: readonly Suite[] = [
  {
    file: 'lib/openapi/inputs.ts',
    tests: ['test/e2e/described-values.test.ts'],
    bugs: [
      {
        guarantee: 'the document says the sizes of tensors of /v2 as the model has them',
        find: "typeof dim === 'number' ? { type: 'integer', const: dim } : COUNT",
        replace: 'COUNT',
      },
      {
        guarantee: 'rows of /v1/models are described by their own shape',
        find: 'const shape = rowShape(spec);\n  const bytes',
        replace: 'const { shape } = spec;\n  const bytes',
      },
    ],
  },
  {
    file: 'lib/codecs/tensorflow-serving/request.ts',
    tests: [ANSWERS, REFUSALS],
    bugs: [
      {
        guarantee: 'a request has up to 1,000 instances',
        find: 'if (rows > LIMITS.instances) throw',
        replace: 'if (rows > 10 * LIMITS.instances) throw',
      },
      {
        guarantee: 'a context is not multiplied beyond the limit of a body',
        find: 'if (least > LIMITS.httpBodyBytes)',
        replace: 'if (least > 100 * LIMITS.httpBodyBytes)',
      },
      {
        guarantee: 'an example does not replace what stands in the context',
        find: 'if (twice.length === 0) return',
        replace: 'if (twice.length < 9) return',
      },
      {
        guarantee: 'each row has the inputs of the first',
        find: 'if (keys.length !== names.length || !names.every(',
        replace: 'if (!names.every(',
      },
    ],
  },
  {
    file: 'lib/http/tensorflow-serving/records.ts',
    tests: [ANSWERS, REFUSALS],
    bugs: [
      {
        guarantee: 'rows on another axis are not taken for those of the first',
        find: 'const isKnown = batchAxisOf(spec) === 0 && ',
        replace: 'const isKnown = ',
      },
      {
        guarantee: 'a model of one row answers several',
        find: "(typeof size !== 'number' || size === rows)",
        replace: 'rows > 0',
      },
      {
        guarantee: 'an output that does not follow the rows is not stacked',
        find: "if (odd || spec?.batchAxis === 'none') {",
        replace: 'if (odd) {',
      },
      {
        guarantee: 'single numbers are answered with single numbers',
        find: 'return asked.isSqueezed ? outputs.map((output) => squeezed(output, 1)) : outputs;',
        replace: 'return outputs;',
      },
      {
        guarantee: 'an output is not cut into rows because its length fits',
        find: 'outputs.some((spec) => batchAxisOf(spec) !== 0)',
        replace: 'outputs.some((spec) => Number(batchAxisOf(spec)) > 0)',
        tests: ['test/lib/http/rows-of-instances.test.ts'],
      },
      {
        guarantee: 'the rows of a model that nobody verified are records of their own',
        find: '!hasKnownRows || ',
        replace: '',
        tests: ['test/lib/http/rows-of-instances.test.ts'],
      },
      {
        guarantee: 'a feature gets the shape of its input',
        find: 'return isOne || isFlat ?',
        replace: 'return isOne ?',
      },
      {
        guarantee: 'what all rows share comes whole beside images',
        find: "if (rows === undefined || (!request.list && batchAxisOf(spec) === 'none'))",
        replace: 'if (rows === 0)',
      },
    ],
  },
  {
    file: 'lib/http/tensorflow-serving/answer.ts',
    tests: [ANSWERS, REFUSALS],
    bugs: [
      {
        guarantee: 'an answer that cannot fit is not written',
        find: 'if (least > LIMITS.httpBodyBytes)',
        replace: 'if (least < 0)',
      },
      {
        guarantee: 'outputs that do not follow the rows have no row form',
        find: 'if (own !== rows)',
        replace: 'if (own === undefined)',
      },
      {
        guarantee: 'texts whose name ends with _bytes are base64',
        find: "&& name.endsWith('_bytes')",
        replace: "&& name === '_bytes'",
      },
      {
        guarantee: 'NaN and the infinities are words',
        find: "if (text !== 'null') return text;",
        replace: "if (text !== '') return text;",
      },
    ],
  },
  {
    file: 'lib/http/tensorflow-serving/endpoint.ts',
    tests: [REFUSALS, ANSWERS],
    bugs: [
      {
        guarantee: 'a signature that was not imported is refused',
        find: 'signature === DEFAULT_SIGNATURE || signature === methodOf(verb)',
        replace: 'signature.length > 0',
      },
      {
        guarantee: 'another version is not found',
        find: 'asked.version !== undefined && asked.version !== runner.version',
        replace: 'asked.version === ""',
      },
      {
        guarantee: 'a label is refused',
        find: 'if (label !== undefined)',
        replace: "if (label === '')",
      },
      {
        guarantee: 'the limit of requests holds',
        find: 'await limiter?.acquire(clock?.caller);',
        replace: '',
      },
      {
        guarantee: 'the rows of a request are one batch',
        find: 'exactSignature: isWhole',
        replace: 'exactSignature: false',
      },
    ],
  },
];
