/** A version shows clients what is in its model and in the files beside it. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { TEXT_FILE } from '../../../lib/contract/texts.ts';
import { TOKENIZER_FILE } from '../../../lib/text/part.ts';
import { faceOf } from '../../../release/diff/face.ts';
import { identityModel } from '../../support/onnx.ts';
import { openModelBytes, temporaryFolder } from '../../support/runner.ts';

test('the settings of texts and the digest of the tokenizer are read from the files beside the model', async (t) => {
  const runner = await openModelBytes(t, identityModel([{ name: 'x', dtype: 'float32', shape: ['N', 1] }]));
  const folder = await temporaryFolder(t);
  const file = join(folder, 'model.onnx');
  assert.deepEqual((await faceOf(file, runner)).text, {});
  await writeFile(join(folder, TEXT_FILE), '{"maxLength":77}');
  await writeFile(join(folder, TOKENIZER_FILE), '{"model":{}}');
  const digest = createHash('sha256').update('{"model":{}}').digest('hex');
  assert.deepEqual((await faceOf(file, runner)).text, { maxLength: 77, tokenizer: digest.slice(0, 12) });
});
