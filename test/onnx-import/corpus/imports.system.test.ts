/** Real models of every kind through the whole import, compared with their reference outputs, as a person would. */
import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { importModel } from '../../../release/import.ts';
import { sharedPath } from '../../support/fixtures.ts';
import { models } from '../../support/models.ts';
import { temporaryFolder } from '../../support/runner.ts';

interface Manifest {
  readonly tolerance: { readonly atol: number; readonly rtol: number };
}

function corpus(t: TestContext, path: string): string | undefined {
  const folder = sharedPath(`corpus/${path}`);
  if (existsSync(folder)) return folder;
  t.skip(`needs ../shared/corpus/${path}, which is not on this machine`);
  return undefined;
}

const MODELS: readonly (readonly [path: string, kind: string, verdict: 'proven' | 'not proven'])[] = [
  ['onnx/mnist_8', 'onnx', 'proven'],
  ['caffe/mtcnn_det2', 'caffe', 'proven'],
  ['caffe/ultraface_rfb_320', 'caffe', 'proven'],
  ['caffe/layer_batch_norm_local_stats', 'caffe', 'proven'],
  ['openvino/gaze-estimation-adas-0002', 'openvino', 'proven'],
  ['openvino/triton_fixed_batch', 'openvino', 'proven'],
  ['tf_frozen/zoo_tfnet', 'tf_frozen', 'proven'],
  ['tf_frozen/benchtf_lstm', 'tf_frozen', 'proven'],
  ['tf_saved_model/keras_simple_model_from_auto_compile', 'tf_saved_model', 'proven'],
  // It normalizes with the mean of its batch.
  ['tf_saved_model/vespa_batch_norm', 'tf_saved_model', 'not proven'],
  // Its input declares no shape.
  ['tf_checkpoint/tf2onnx_regression', 'tf_checkpoint', 'not proven'],
];
for (const [path, kind, verdict] of MODELS) {
  test(`${path} is imported and equals its reference`, async (t) => {
    const folder = corpus(t, path);
    if (folder === undefined) return;
    const { tolerance } = JSON.parse(readFileSync(join(folder, 'manifest.json'), 'utf8')) as Manifest;
    const out = join(await temporaryFolder(t), 'out');
    const { importReport } = await importModel(folder, { out, version: '1', reference: folder, tolerance });
    assert.equal(importReport.source.format, kind);
    assert.equal(importReport.check.reference, 'agrees');
    assert.equal(importReport.verification?.batching.verdict, verdict);
    assert.deepEqual(importReport.check.nan, {});
    assert.ok(importReport.measured.lambda.fits);
  });
}

const REFUSED: readonly (readonly [path: string, message: RegExp])[] = [
  [
    'caffe/bigdl_test_unsupported_layer',
    /model\.prototxt: one node cannot be converted:\n {2}Dummy \(node "customized"\)/,
  ],
  [
    'pytorch/djl_identity',
    /model\.pt: a PyTorch file does not say the shape of input "\w+"; give it with --input/,
  ],
  [
    'openvino/ovms_summator',
    /model\.xml: 2 nodes cannot be converted:\n {2}ReadValue \(node "read"\): is not supported: the model keeps a state/,
  ],
  ['onnx/cv_linear', /onnxruntime cannot load the model: .*opset 13 or newer/],
  [
    'tf_saved_model/sts_estimator',
    /saved_model\.pb: .*\n.*ParseExample \(node "ParseExample\/ParseExample"\)/,
  ],
];
for (const [path, message] of REFUSED) {
  test(`${path} is refused with what to do, and nothing is written`, async (t) => {
    const folder = corpus(t, path);
    if (folder === undefined) return;
    const out = join(await temporaryFolder(t), 'out');
    await assert.rejects(importModel(folder, { out, version: '1', process: models }), {
      code: 'bad_model',
      message,
    });
    assert.ok(!existsSync(out));
  });
}
