/** `model import --with-python`: it asks before a file that is code is loaded, and errors name it where it would help. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { exportFirst } from '../../../cli/model/with-python.ts';
import type { Output } from '../../../cli/output.ts';
import { badConfig, badModel } from '../../../lib/contract/errors.ts';
import { folderOf } from '../../onnx-import/support/folder.ts';

const PICKLE = fileURLToPath(new URL('../../onnx-import/python/models/pipeline.pkl', import.meta.url));
const OUTPUT: Output = {
  json: true,
  answer: () => undefined,
  piece: () => undefined,
  note: () => undefined,
  failure: () => undefined,
};

test('a pickle is never loaded without a yes', {
  skip: process.stdin.isTTY && 'there is a terminal',
}, async () => {
  await assert.rejects(
    exportFirst(PICKLE, { 'with-python': true }, OUTPUT, async () => assert.fail('it ran')),
    /this loads .*pipeline\.pkl \(scikit-learn in a pickle, which is code\) with Python, which runs whatever is in it, as you, .*pass --yes/,
  );
});

test('an import that fails names the option where an exporter is known, and Python runs for nobody who did not ask', async (t) => {
  const failing = (reason: Error) => async () => assert.fail(reason);
  await assert.rejects(
    exportFirst(PICKLE, {}, OUTPUT, failing(badModel('no model'))),
    /^ServingError: no model; or pass --with-python, which runs the exporter here \(it loads the file, which is code\)$/,
  );
  await assert.rejects(
    exportFirst(PICKLE, {}, OUTPUT, failing(badConfig('wrong use'))),
    /^ServingError: wrong use$/,
  );
  const folder = await folderOf(t, { 'a.onnx': 'x' });
  await assert.rejects(
    exportFirst(folder, {}, OUTPUT, failing(badModel('broken'))),
    /^ServingError: broken$/,
  );
  assert.equal(await exportFirst(folder, {}, OUTPUT, async (directory) => (directory === folder ? 0 : 1)), 0);
});
