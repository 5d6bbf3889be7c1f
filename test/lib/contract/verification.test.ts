import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  ANALYSER_VERSION,
  type BatchAxes,
  isCurrent,
  isVerdictCurrent,
  mayShareRuns,
  optimizationFor,
  readVerification,
  type Verification,
} from '../../../lib/contract/verification.ts';
import { verificationNotes } from '../../../lib/contract/verification-text.ts';

const HERE = { onnxruntime: '1.30.0', architecture: 'x64', features: ['avx2', 'avx512_vnni'] };

const PROVEN: Verification = {
  batching: { verdict: 'proven', analyser: ANALYSER_VERSION },
  runtime: { ...HERE, level: 'all', disabledOptimizers: ['GeluFusionL2'] },
  comparison: 'agrees',
};
const MIXED: Verification = {
  ...PROVEN,
  batching: {
    verdict: 'not proven',
    reason: 'it adds up rows',
    operator: 'CumSum',
    node: 'sum',
    analyser: ANALYSER_VERSION,
  },
  comparison: 'skipped',
  reason: 'it is large',
};
const ELSEWHERE: Verification = {
  ...PROVEN,
  batching: { ...PROVEN.batching, inputAxes: { state: 1, sr: 'none' }, outputAxes: { stateN: 1 } },
};
const SCALARS: Verification = { ...PROVEN, scalars: ['rate'] };
const elsewhere = (runtime: Partial<typeof HERE>): Verification => ({
  ...PROVEN,
  runtime: { ...PROVEN.runtime, ...runtime },
});

test('a verification is what it was after it was stored', () => {
  for (const one of [PROVEN, MIXED, ELSEWHERE, SCALARS])
    assert.deepEqual(readVerification(JSON.parse(JSON.stringify(one))), one);
});

test('a damaged document, or one of another form, is not a verification', () => {
  const { batching, runtime } = PROVEN;
  const damaged: readonly unknown[] = [
    undefined,
    null,
    'proven',
    {},
    { ...PROVEN, batching: 'proven' },
    { ...PROVEN, batching: { ...batching, verdict: 'sure' } },
    { ...PROVEN, batching: { verdict: 'proven' } },
    { ...PROVEN, batching: { ...batching, inputAxes: { x: -1 } } },
    { ...PROVEN, batching: { ...batching, outputAxes: { y: 'all' } } },
    { ...PROVEN, comparison: 'differs' },
    { ...PROVEN, scalars: 'rate' },
    { ...PROVEN, scalars: [1] },
    { ...PROVEN, runtime: undefined },
    { ...PROVEN, runtime: { ...runtime, level: 'most' } },
    { ...PROVEN, runtime: { ...runtime, onnxruntime: 1.3 } },
    { ...PROVEN, runtime: { ...runtime, disabledOptimizers: 'GeluFusionL2' } },
    { ...PROVEN, runtime: { ...runtime, disabledOptimizers: ['a;b'] } },
    { ...PROVEN, runtime: { ...runtime, features: 'avx2' } },
    { ...PROVEN, runtime: { ...runtime, features: [1] } },
  ];
  for (const value of damaged) assert.equal(readVerification(value), undefined, JSON.stringify(value));
});

test('records share a run when that is proven by the rules and the onnxruntime of this release', () => {
  assert.equal(mayShareRuns(PROVEN, HERE), true);
  assert.equal(mayShareRuns(elsewhere({ architecture: 'arm64' }), HERE), true);
  const old = { ...PROVEN, batching: { ...PROVEN.batching, analyser: ANALYSER_VERSION - 1 } };
  for (const one of [undefined, MIXED, old, elsewhere({ onnxruntime: '1.29.0' })]) {
    assert.equal(mayShareRuns(one, HERE), false);
    assert.equal(isVerdictCurrent(one, HERE), one === MIXED);
  }
});

test('a proof holds for the batch axes that it was made for', () => {
  const made = (inputAxes: BatchAxes | undefined): Verification => ({
    ...PROVEN,
    batching: { ...PROVEN.batching, inputAxes },
  });
  const silero = { state: 1, sr: 'none' } as const;
  const cases: readonly (readonly [BatchAxes | undefined, BatchAxes | undefined, boolean])[] = [
    [undefined, undefined, true],
    [undefined, { x: 0 }, true],
    [silero, { sr: 'none', x: 0, state: 1 }, true],
    [silero, undefined, false],
    [silero, { state: 1 }, false],
    [undefined, { state: 1 }, false],
    [{ x: 1 }, { y: 1 }, false],
  ];
  for (const [inputAxes, batchAxes, holds] of cases) {
    const what = JSON.stringify([inputAxes, batchAxes]);
    assert.equal(mayShareRuns(made(inputAxes), HERE, { batchAxes }), holds, what);
    assert.equal(isCurrent(made(inputAxes), HERE, { batchAxes }), holds, what);
  }
});

test('a proof about rows that share a scalar holds whether or not a job says that they do', () => {
  const made = (inputAxes: BatchAxes): Verification => ({
    ...SCALARS,
    batching: { ...PROVEN.batching, inputAxes },
  });
  const none = { rate: 'none' } as const;
  assert.equal(mayShareRuns(SCALARS, HERE, { batchAxes: none }), true);
  assert.equal(mayShareRuns(made(none), HERE), true);
  assert.equal(mayShareRuns(made({ ...none, x: 'none' }), HERE), false);
  assert.equal(mayShareRuns(SCALARS, HERE, { batchAxes: { x: 'none' } }), false);
});

test('always and never are the word of the owner', () => {
  for (const one of [undefined, PROVEN, MIXED]) {
    assert.equal(mayShareRuns(one, HERE, { batching: 'always' }), true);
    assert.equal(mayShareRuns(one, HERE, { batching: 'never' }), false);
  }
});

test('a comparison holds for one processor', () => {
  assert.equal(isCurrent(PROVEN, HERE), true);
  assert.equal(isCurrent(elsewhere({ features: ['avx2'] }), HERE), false);
  const { features: _, ...ofEarlierRelease } = PROVEN.runtime;
  assert.equal(isCurrent({ ...PROVEN, runtime: ofEarlierRelease }, HERE), false);
  assert.equal(isCurrent(elsewhere({ architecture: 'arm64' }), HERE), false);
  assert.equal(isCurrent(undefined, HERE), false);
});

test('where the kernels are others, the rewrites of quantized nodes are off, and those that change the answers', () => {
  assert.equal(optimizationFor(undefined, HERE), undefined);
  const here = { level: 'all', disabledOptimizers: ['GeluFusionL2'], isElsewhere: false };
  assert.deepEqual(optimizationFor(PROVEN, HERE), here);
  const { features: _, ...ofEarlierRelease } = PROVEN.runtime;
  const others = [
    elsewhere({ features: ['avx2'] }),
    elsewhere({ features: [] }),
    elsewhere({ architecture: 'arm64' }),
    elsewhere({ onnxruntime: '1.29.0' }),
    { ...PROVEN, runtime: ofEarlierRelease },
  ];
  for (const one of others) {
    const { disabledOptimizers, isElsewhere, level } = optimizationFor(one, HERE) ?? assert.fail();
    assert.deepEqual([level, isElsewhere], ['all', true]);
    const off = ['GeluFusionL2', 'QDQSelectorActionTransformer', 'DynamicQuantizeMatMulFusion'];
    assert.ok(
      off.every((name) => disabledOptimizers.includes(name)),
      disabledOptimizers.join(),
    );
    assert.ok(!disabledOptimizers.includes('ConstantFolding'));
  }
  const everywhere = { ...PROVEN, runtime: { ...PROVEN.runtime, features: ['avx2'], anyFeatures: true } };
  assert.deepEqual(optimizationFor(everywhere, HERE), here);
  assert.equal(optimizationFor(everywhere, { ...HERE, architecture: 'arm64' })?.isElsewhere, true);
});

test('the texts name the operator and the node at which the proof ended, and what was switched off', () => {
  assert.deepEqual(verificationNotes(PROVEN), [
    'records share runs: the graph shows that none changes the answer of another',
    "onnxruntime's rewrites changed the answers of this model: GeluFusionL2 is off",
  ]);
  assert.deepEqual(verificationNotes(MIXED), [
    'records run one by one: CumSum (node "sum"): it adds up rows',
    "onnxruntime's rewrites were not compared: it is large",
  ]);
  const without = { ...MIXED, runtime: { ...MIXED.runtime, level: 'disabled' as const } };
  assert.equal(
    verificationNotes(without)[1],
    "onnxruntime's rewrites were not compared, so the model runs without them: it is large",
  );
  assert.equal(
    verificationNotes({ ...without, comparison: 'agrees' })[1],
    "onnxruntime's rewrites changed the answers of this model: all of them are off",
  );
  assert.match(verificationNotes(undefined).join(), /was not verified; `model push`/);
  assert.match(verificationNotes(MIXED, 'always')[0] ?? '', /set to always/);
});
