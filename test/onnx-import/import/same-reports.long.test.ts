/** Imports of one model give one report, byte for byte but for what is measured, however busy the machine is. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { cp, mkdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { variables } from '../../../lib/contract/variables.ts';
import { importModel } from '../../../release/import.ts';
import { sharedPath } from '../../support/fixtures.ts';
import { temporaryFolder } from '../../support/runner.ts';

const [IMPORTS, LOAD] = [Number(variables['REPORT_IMPORTS'] ?? 20), Number(variables['REPORT_LOAD'] ?? 8)];
/** Trees, texts, quantized nodes, convolutions, recurrence, rows that mix, and what a rewrite changes. */
const MODELS = [
  'fresh/sk/titanic_zipmap',
  'fresh/trees/xgb_binary',
  'onnx/mnist_8',
  'onnx/vespa_dummy_transformer',
  'onnx/silero_vad_16k',
  'batching/q_mlp.onnx',
  'batching/bn_train.onnx',
  'batching/mlp_l2.onnx',
  'reported/proofs/qdq_pascal.onnx',
  'reported/proofs/skip_text.onnx',
];

/** Processes that do nothing but keep the processor busy. */
function load(t: TestContext): void {
  for (let i = 0; i < LOAD; i++) {
    const busy = spawn(process.execPath, ['-e', 'for (;;);'], { stdio: 'ignore' });
    t.after(() => busy.kill('SIGKILL'));
  }
}

/** A directory with the model, where it is a file of its own. */
async function directoryOf(t: TestContext, path: string): Promise<string> {
  const source = sharedPath(`corpus/${path}`);
  if (!path.endsWith('.onnx')) return source;
  const folder = join(await temporaryFolder(t), 'model');
  await mkdir(folder);
  await cp(source, join(folder, 'model.onnx'));
  return folder;
}

for (const path of MODELS) {
  test(`${IMPORTS} imports of ${path} under load ${LOAD} say the same`, async (t) => {
    const source = sharedPath(`corpus/${path}`);
    if (!existsSync(source)) return t.skip('needs ../shared/corpus, which is not on this machine');
    const folder = await directoryOf(t, path);
    const report = async () => {
      const out = join(await temporaryFolder(t), 'out');
      await importModel(folder, { version: '1', measure: false, out });
      const { measured: _, ...rest } = JSON.parse(await readFile(join(out, 'import-report.json'), 'utf8'));
      return JSON.stringify(rest);
    };
    const reports = new Set([await report()]);
    load(t);
    for (let i = 1; i < IMPORTS; i++) reports.add(await report());
    assert.equal(reports.size, 1, [...reports].join('\n'));
  });
}
