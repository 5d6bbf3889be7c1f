/** The models of the shared corpus whose rows may influence each other, and controls whose rows do not. */
import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { verificationNotes } from '../../../lib/contract/verification-text.ts';
import { readModel } from '../../../onnx-import/batching/model.ts';
import { proofOf } from '../../../onnx-import/batching/proof.ts';
import { verifyModel } from '../../../onnx-import/verify/verify.ts';
import { sharedPath } from '../../support/fixtures.ts';
import { models } from '../../support/models.ts';

const CORPUS = sharedPath('corpus/batching');

/** Rows of these are independent, as the corpus' README and notes say; all others mix them. */
const INDEPENDENT = new Set(
  'ctl_mlp ctl_layernorm mlp mlp_ln mlp_l2 mlp_label tokens0 tokens1 tokens3 fixed4_plain'.split(' '),
);

/** Where the proof of a mixing model must end: its operator says what it does. */
const ENDS: Readonly<Record<string, string>> = {
  cumsum0: 'CumSum',
  sort_asc: 'TopK',
  submax0: 'ReduceMax',
  submean0: 'ReduceMean',
  divmax_u8: 'ReduceMax',
  softmax0: 'Softmax',
  hardmax0: 'Hardmax',
  bn_train: 'BatchNormalization',
  noise_submean: 'ReduceMean',
  add_row_index: 'Range',
  div_by_n: 'Div',
  rnn_seqfirst: 'RNN',
  lstm_seqfirst: 'LSTM',
  lstm_whole: 'LSTM',
  causal_attn0: 'MatMul',
  outer: 'MatMul',
  median0: 'TopK',
  string_mix: 'Unique',
  fixed4_cumsum: 'CumSum',
  nms_thresh: 'NonMaxSuppression',
  nonzero_rows: 'Compress',
  q_mlp: 'DynamicQuantizeLinear',
  q_tokens0: 'DynamicQuantizeLinear',
};

function corpusNames(t: TestContext): string[] {
  if (!existsSync(CORPUS)) {
    t.skip('needs ../shared/corpus/batching, which is not on this machine');
    return [];
  }
  const index = JSON.parse(readFileSync(join(CORPUS, 'index.json'), 'utf8')) as { name: string }[];
  return index.map(({ name }) => name);
}

test('no model that mixes rows is proven, and the proof ends where it mixes them', (t) => {
  const names = corpusNames(t).filter((name) => !INDEPENDENT.has(name));
  if (names.length === 0) return;
  assert.ok(names.length >= 34);
  for (const name of names) {
    const { end } = proofOf(readModel(join(CORPUS, `${name}.onnx`)), new Map());
    assert.ok(end, `${name} was proven`);
    assert.ok(end.message.length > 10, name);
    if (ENDS[name] !== undefined) assert.equal(end.operator, ENDS[name], name);
  }
});

for (const name of INDEPENDENT) {
  test(`${name}, whose rows are independent, is proven and its probe agrees`, async (t) => {
    if (!corpusNames(t).includes(name)) return;
    const options = { maxRows: 12, probeMs: 2_000, process: models };
    const verification = await verifyModel(join(CORPUS, `${name}.onnx`), options);
    assert.equal(verification.batching.verdict, 'proven', verificationNotes(verification).join());
  });
}
