import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  ANALYSER_VERSION,
  batchingText,
  isCurrent,
  mayShareRuns,
  needsVerification,
  optimizationText,
  readVerification,
  type Verification,
} from '../../../lib/contract/verification.ts';

const HERE = { onnxruntime: '1.30.0', architecture: 'x64' };

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
const elsewhere = (runtime: Partial<typeof HERE>): Verification => ({
  ...PROVEN,
  runtime: { ...PROVEN.runtime, ...runtime },
});

test('a verification is what it was after it was stored', () => {
  for (const one of [PROVEN, MIXED]) assert.deepEqual(readVerification(JSON.parse(JSON.stringify(one))), one);
});

test('whatever is damaged or of another form is none', () => {
  const { batching, runtime } = PROVEN;
  const damaged: readonly unknown[] = [
    undefined,
    null,
    'proven',
    {},
    { ...PROVEN, batching: 'proven' },
    { ...PROVEN, batching: { ...batching, verdict: 'sure' } },
    { ...PROVEN, batching: { verdict: 'proven' } },
    { ...PROVEN, comparison: 'differs' },
    { ...PROVEN, runtime: undefined },
    { ...PROVEN, runtime: { ...runtime, level: 'most' } },
    { ...PROVEN, runtime: { ...runtime, onnxruntime: 1.3 } },
    { ...PROVEN, runtime: { ...runtime, disabledOptimizers: 'GeluFusionL2' } },
    { ...PROVEN, runtime: { ...runtime, disabledOptimizers: ['a;b'] } },
  ];
  for (const value of damaged) assert.equal(readVerification(value), undefined, JSON.stringify(value));
});

test('records share a run when that is proven by the rules and the onnxruntime of this release', () => {
  assert.equal(mayShareRuns(PROVEN, HERE), true);
  assert.equal(mayShareRuns(elsewhere({ architecture: 'arm64' }), HERE), true);
  const old = { ...PROVEN, batching: { ...PROVEN.batching, analyser: ANALYSER_VERSION - 1 } };
  for (const one of [undefined, MIXED, old, elsewhere({ onnxruntime: '1.29.0' })]) {
    assert.equal(mayShareRuns(one, HERE), false);
    assert.equal(needsVerification(one, HERE, 'proven'), one !== MIXED);
  }
});

test('always and never are the word of the owner', () => {
  for (const one of [undefined, PROVEN, MIXED]) {
    assert.equal(mayShareRuns(one, HERE, 'always'), true);
    assert.equal(mayShareRuns(one, HERE, 'never'), false);
    assert.equal(needsVerification(one, HERE, 'always'), false);
  }
});

test('a comparison holds for one processor architecture', () => {
  assert.equal(isCurrent(PROVEN, HERE), true);
  assert.equal(isCurrent(elsewhere({ architecture: 'arm64' }), HERE), false);
  assert.equal(isCurrent(undefined, HERE), false);
});

test('the texts name the operator and the node at which the proof ended, and what was switched off', () => {
  assert.equal(batchingText(PROVEN), 'records share runs: proven on the graph');
  assert.equal(batchingText(MIXED), 'records run one by one: CumSum (node "sum"): it adds up rows');
  assert.match(batchingText(undefined), /was not verified; `model push`/);
  assert.match(batchingText(MIXED, 'always'), /set to always/);
  assert.equal(optimizationText(PROVEN), 'onnxruntime changed the answers of this model: GeluFusionL2 off');
  assert.equal(optimizationText(MIXED), "onnxruntime's rewrites were not compared: it is large");
});
