/** Bugs in what keeps answers right: verdicts on batches, rewrites of onnxruntime, golden requests, the gate. */
import type { Suite } from '../mutant.ts';

const VERIFICATION = 'test/lib/contract/verification.test.ts';
const SHARING = 'test/lib/inference/warm-up.test.ts';
const OPTIMIZERS = 'test/lib/inference/optimizers.test.ts';
const RUNNER = 'test/lib/inference/runner.test.ts';
const OUTPUT_AXES = 'test/convert/verify/output-axes.test.ts';
const REWRITES = 'test/convert/verify/rewrites.test.ts';
const GATE = 'test/convert/verify/gate.test.ts';
const GOLDEN = 'test/convert/golden.test.ts';
const GOLDEN_CLI = 'test/system/golden.test.ts';

export const ANSWERS: readonly Suite[] = [
  {
    file: 'lib/contract/verification.ts',
    tests: [VERIFICATION],
    bugs: [
      {
        guarantee: 'a verdict of other rules is as good as none',
        find: 'batching?.analyser === ANALYSER_VERSION && ',
        replace: '',
      },
      {
        guarantee: 'a verdict beside another onnxruntime is as good as none',
        find: ' && runtime?.onnxruntime === onnxruntime',
        replace: '',
      },
      {
        guarantee: 'a proof for other batch axes is as good as none',
        find: ' && hasInputAxes(verification, batchAxes)',
        replace: '',
      },
      {
        guarantee: 'a proof that ended lets no records share a run',
        find: "&& verification.batching.verdict === 'proven'",
        replace: '',
      },
      {
        guarantee: 'the axes of outputs that were verified for other axes of inputs are not used',
        find: 'if (!hasInputAxes(verification, batchAxes)) return undefined;',
        replace: '',
        tests: ['test/lib/pipeline/batch-axes.test.ts'],
      },
      {
        guarantee: 'batching: never lets no records share a run',
        find: "if (batching !== 'proven') return batching === 'always';",
        replace: "if (batching === 'always') return true;",
      },
      {
        guarantee: 'a comparison on another processor is made again',
        find: ' && isComparedFor(verification.runtime, here)',
        replace: '',
      },
      {
        guarantee: 'under other kernels quantized nodes are not rewritten',
        find: '[...disabledOptimizers, ...OF_QUANTIZED]',
        replace: '[...disabledOptimizers]',
      },
      {
        guarantee: 'a stored name of a rewrite switches off nothing else',
        find: String.raw`/^\w{1,80}$/.test(value)`,
        replace: "name !== ''",
      },
    ],
  },
  {
    file: 'lib/inference/runner.ts',
    tests: [SHARING, OPTIMIZERS, RUNNER],
    bugs: [
      {
        guarantee: 'records share a run only where the verdict says so',
        find: 'mayShareRuns(verification, RUNTIME, settings) && ',
        replace: '',
      },
      {
        guarantee: 'records of a model with an output that follows no rows run one by one',
        find: " && outputs.every((spec) => batchAxisOf(spec) !== 'none')",
        replace: '',
        tests: [SHARING],
      },
      {
        guarantee: 'a model is opened as its verification says',
        find: ', optimization: optimizationFor(verification, RUNTIME)',
        replace: '',
      },
    ],
  },
  {
    file: 'lib/inference/processor.ts',
    tests: ['test/lib/inference/quantized.test.ts'],
    bugs: [
      {
        guarantee: 'sums of int8 are exact on a processor without VNNI',
        find: "return features.includes('avx512_vnni') || ",
        replace: "return features.includes('avx2') || ",
      },
    ],
  },
  {
    file: 'convert/verify/kernels.ts',
    tests: ['test/convert/verify/kernels.test.ts'],
    bugs: [
      {
        guarantee: 'a product of two quantized inputs is compared on each processor',
        find: '!isOfQuantized || isConstant(second.inputs[0])',
        replace: 'true',
      },
      {
        guarantee: 'int8 numbers that two nodes share are compared on each processor',
        find: ' && new Set(used).size === used.length',
        replace: '',
      },
    ],
  },
  {
    file: 'convert/batching/probe-values.ts',
    tests: ['test/convert/batching/hints.test.ts'],
    bugs: [
      {
        guarantee: 'a model runs on three lengths of its free sizes',
        find: 'made.length === MOST_LENGTHS',
        replace: 'made.length === 1',
      },
      {
        guarantee: 'rows reach the end of what the graph quantizes',
        find: '(_, at) => most(at),',
        replace: '(_, at) => least(at),',
      },
      {
        guarantee: 'texts that the graph reads as numbers are numbers',
        find: 'if (isNumber) return',
        replace: 'if (isNumber && isCareful) return',
      },
    ],
  },
  {
    file: 'convert/batching/verdict.ts',
    tests: ['test/convert/check/work.test.ts'],
    bugs: [
      {
        guarantee: 'a probe that did not finish leaves records alone',
        find: "if (report?.kind !== 'not finished') return verdict;",
        replace: 'if (report) return verdict;',
      },
    ],
  },
  {
    file: 'convert/check/crash.ts',
    tests: ['test/convert/model-process.test.ts'],
    bugs: [
      {
        guarantee: 'a model that ends its process is refused with what ran last',
        find: 'lines.findLast((line)',
        replace: 'lines.find((line)',
      },
    ],
  },
  {
    file: 'convert/import-report.ts',
    tests: ['test/convert/import/report-text.test.ts'],
    bugs: [
      {
        guarantee: 'a report never says that made-up rows were timed where none ran',
        find: 'const latency = check.runs ?',
        replace: 'const latency = true ?',
      },
    ],
  },
  {
    file: 'lib/inference/optimizers.ts',
    tests: [OPTIMIZERS],
    bugs: [
      {
        guarantee: 'a rewrite that is wrong for every model is always off',
        find: "= ['Pad_Fusion', 'GatherToSliceFusion', 'DivMulFusion'];",
        replace: "= ['GatherToSliceFusion', 'DivMulFusion'];",
      },
      {
        guarantee: 'a Range that begins below 0 is no slice',
        find: "['Pad_Fusion', 'GatherToSliceFusion', 'DivMulFusion']",
        replace: "['Pad_Fusion']",
      },
    ],
  },
  {
    file: 'lib/inference/session.ts',
    tests: [OPTIMIZERS],
    bugs: [
      {
        guarantee: 'the rewrites of the verification are off',
        find: '...WRONG_OPTIMIZERS, ...disabledOptimizers',
        replace: '...WRONG_OPTIMIZERS',
      },
      {
        guarantee: 'the level of the verification is kept to',
        find: 'isAsWritten ? OPTIMIZERS : ',
        replace: '',
      },
    ],
  },
  {
    file: 'convert/verify/rewrites.ts',
    tests: [REWRITES],
    bugs: [
      {
        guarantee: 'the optimized model is compared with the model as it is written',
        find: 'openSession(file, { threads: THREADS, optimization: AS_WRITTEN })',
        replace: 'openSession(file, { threads: THREADS, optimization: ALL_REWRITES })',
      },
      {
        guarantee: 'a rewrite is switched off only where that mends the answers',
        find: 'if (await agreesWithout([...known, ...names.slice(0, middle)])) right = middle;',
        replace: 'if (await agreesWithout(names.slice(0, middle))) right = middle;',
      },
      {
        guarantee: 'a model whose harmful rewrites are not found runs without any',
        find: '  return AS_WRITTEN;',
        replace: '  return without([]);',
      },
    ],
  },
  {
    file: 'convert/made-model.ts',
    tests: ['test/convert/import/rewrites.test.ts'],
    bugs: [
      {
        guarantee: 'an import checks a model without the rewrites that it found to be wrong',
        find: 'optimization: rewrites.runtime,',
        replace: 'optimization: { ...rewrites.runtime, disabledOptimizers: [] },',
      },
    ],
  },
  {
    file: 'convert/tensorflow/files/range-checks.ts',
    tests: ['test/convert/tensorflow/files/range-checks.test.ts'],
    bugs: [
      {
        guarantee: 'an index that TensorFlow checks is checked',
        find: 'if (bound !== undefined) scope',
        replace: 'if (false) scope',
      },
    ],
  },
  {
    file: 'convert/verify/output-axes.ts',
    tests: [OUTPUT_AXES],
    bugs: [
      {
        guarantee: 'an output that has another size for any run follows no rows',
        find: 'answers.every((answer)',
        replace: 'answers.some((answer)',
      },
    ],
  },
  {
    file: 'convert/verify/difference.ts',
    tests: [REWRITES],
    bugs: [
      {
        guarantee: 'a small change of an output of small values is a change',
        find: 'const OF_SPREAD = 1e-4;',
        replace: 'const OF_SPREAD = 0.1;',
      },
      {
        guarantee: 'an infinite value is equal to itself alone',
        find: 'if (!Number.isFinite(value) || !Number.isFinite(other)) return false;',
        replace: '',
      },
    ],
  },
  {
    file: 'convert/verify/verify.ts',
    tests: [REWRITES],
    bugs: [
      {
        guarantee: 'what was verified beside another onnxruntime is verified again',
        find: 'return isCurrent(options.known, RUNTIME, options);',
        replace: 'return options.known !== undefined;',
      },
    ],
  },
  {
    file: 'convert/verify/version.ts',
    tests: [GOLDEN_CLI],
    bugs: [
      {
        guarantee: 'a version that answers a golden request otherwise is not pushed',
        find: 'await assertGolden(dirname(file), { file, job, verification, gate, kept, signal, process });',
        replace: 'void [assertGolden, dirname(file), job, gate, kept, signal];',
      },
      {
        guarantee: 'a version that never opens is refused in time',
        find: 'if (gate || !(await isKnown(proof))) await assertOpens(file, process, options);',
        replace: 'void [gate, isKnown, assertOpens];',
        tests: ['test/convert/verify/ready.test.ts'],
      },
    ],
  },
  {
    file: 'cli/model/versions.ts',
    tests: [GOLDEN_CLI],
    bugs: [
      {
        guarantee: 'a rollback asks the golden requests of the version',
        find: 'check: async (wanted) => assertGoldenHere(place, wanted, await job()),',
        replace: 'check: async (wanted) => void [assertGoldenHere, wanted, job],',
      },
    ],
  },
  {
    file: 'convert/verify/endpoints.ts',
    tests: [GATE],
    bugs: [
      {
        guarantee: 'a version answers POST /v2 before it serves',
        find: 'await post(`/v2/models/${NAME}/infer`, JSON.stringify({ inputs }));',
        replace: '',
      },
      {
        guarantee: 'a version answers a record of the queue before it serves',
        find: 'if (failure && !REACHED.includes(failure.code)) {',
        replace: 'if (failure && failure.code === undefined) {',
      },
    ],
  },
  {
    file: 'convert/verify/gate.ts',
    tests: [GATE],
    bugs: [
      {
        guarantee: 'a model that takes no made-up values is not refused',
        find: 'if (!runs) return undefined;',
        replace: '',
      },
      {
        guarantee: 'settings of images that the model cannot have are refused',
        find: 'await assertPictures(runner, feeds, options);',
        replace: 'void assertPictures;',
        tests: [GATE],
      },
    ],
  },
  {
    file: 'convert/golden/check.ts',
    tests: [GOLDEN],
    bugs: [
      {
        guarantee: 'a golden request that gets another answer blocks the version',
        find: 'if (failed.length === 0) return { count: results.length, sample };',
        replace: 'if (failed.length >= 0) return { count: results.length, sample };',
      },
      {
        guarantee: 'a golden request that the model refuses blocks the version',
        find: 'return difference !== undefined || error !== undefined;',
        replace: 'return difference !== undefined;',
      },
    ],
  },
  {
    file: 'convert/golden/run.ts',
    tests: [GOLDEN],
    bugs: [
      {
        guarantee: 'every instance of a golden request counts',
        find: 'differences.find((one) => one !== undefined)',
        replace: 'differences[0]',
      },
      {
        guarantee: 'golden requests are asked of the model as it is going to serve',
        find: '{ ...modelSettings(job, THREADS), verification }',
        replace: 'modelSettings(job, THREADS)',
      },
    ],
  },
  {
    file: 'convert/golden/compare.ts',
    tests: [GOLDEN],
    bugs: [
      {
        guarantee: 'a whole number has no tolerance',
        find: '!FLOAT.test(expected) || !FLOAT.test(got) || ',
        replace: '',
      },
      {
        guarantee: "the tolerance is a share of the output's own spread",
        find: 'const spread = spreadOf(tokens);',
        replace: 'const spread = spreadOf(wanted.flat());',
      },
      {
        guarantee: 'an answer of another length is another answer',
        find: 'if (tokens.length !== others.length) return { output, ...form };',
        replace: 'if (tokens.length > others.length) continue;',
      },
    ],
  },
];
