/** Bugs in lib/text and what an import makes of a folder of Hugging Face: tokens, padding, pooling, order. */
import type { Suite } from '../mutant.ts';

const IMPORT = 'test/convert/text.test.ts';
const TOKENS = 'test/lib/text/tokenizer.test.ts';
const HOSTILE = 'test/lib/text/hostile.test.ts';

export const TEXT: readonly Suite[] = [
  {
    file: 'lib/text/runner.ts',
    tests: [IMPORT],
    bugs: [
      {
        guarantee: 'texts are answered in the order of the caller',
        find: 'rows[index] = answers[i] as Float32Array',
        replace: 'rows[i] = answers[i] as Float32Array',
      },
      {
        guarantee: 'only texts of equal length share a run where padding changes answers',
        find: 'const most = mayPad && padding ?',
        replace: 'const most = padding ?',
      },
      {
        guarantee: 'padding is masked',
        find: '(ids[at] === undefined ? 0 : 1)',
        replace: '(at < 0 ? 0 : 1)',
      },
    ],
  },
  {
    file: 'lib/compose/onnx.ts',
    tests: [IMPORT],
    bugs: [
      {
        guarantee: 'the verdict on padding is obeyed',
        find: "settings.verification?.batching.padding === 'agrees'",
        replace: 'settings.batchSize > 0',
      },
    ],
  },
  {
    file: 'lib/text/answers.ts',
    tests: [IMPORT],
    bugs: [
      {
        guarantee: 'a mean does not count padding',
        find: 'if (counts === 0) continue;',
        replace: '',
      },
    ],
  },
  {
    file: 'lib/text/models.ts',
    tests: [TOKENS],
    bugs: [
      {
        guarantee: 'of equal merges the leftmost comes first',
        find: 'queue.push(rank * PLACES + at)',
        replace: 'queue.push(rank * PLACES + PLACES - 1 - at)',
      },
    ],
  },
  {
    file: 'lib/text/unicode.ts',
    tests: [TOKENS],
    bugs: [
      {
        guarantee: 'a sigma at the end of a word is lower-cased as any other',
        find: ".join('\\u03c3')",
        replace: ".join('\\u03c2')",
      },
    ],
  },
  {
    file: 'lib/text/pattern.ts',
    tests: [HOSTILE],
    bugs: [
      {
        guarantee: 'a regular expression that may take exponential time is refused',
        find: "if (isVariedGroup && quantifier !== '?')",
        replace: "if (isVariedGroup && quantifier === '?')",
      },
    ],
  },
];
