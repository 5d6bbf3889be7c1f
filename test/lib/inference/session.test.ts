/** A session of onnxruntime tells what fails, also at its end. */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { openSession } from '../../../lib/inference/session.ts';
import { identityModel } from '../../support/onnx.ts';
import { temporaryFolder } from '../../support/runner.ts';

test('what onnxruntime says when it cannot release a session reaches the one who closes it', async (t) => {
  const file = join(await temporaryFolder(t), 'model.onnx');
  await writeFile(file, identityModel([{ name: 'x', dtype: 'float32', shape: ['N', 1] }]));
  const session = await openSession(file, { threads: 1 });
  await session.close();
  await assert.rejects(session.close(), /disposed/);
});
