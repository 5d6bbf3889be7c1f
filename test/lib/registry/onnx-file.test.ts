/** The errors about a model directory without an ONNX file that could serve. */
import assert from 'node:assert/strict';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { findModelFile } from '../../../lib/registry/onnx-file.ts';
import { temporaryFolder } from '../../support/runner.ts';

async function folderWith(t: TestContext, files: Readonly<Record<string, string>>): Promise<string> {
  const folder = join(await temporaryFolder(t), 'model');
  await mkdir(folder);
  for (const [name, text] of Object.entries(files)) await writeFile(join(folder, name), text, 'latin1');
  return folder;
}

const REFUSED: readonly (readonly [
  what: string,
  files: Readonly<Record<string, string>>,
  message: RegExp,
])[] = [
  ['nothing', {}, /model: expected one \*\.onnx file, found none in 0 files$/],
  ['other files', { 'b.txt': 'x', 'a.pt': 'x' }, /found none in 2 files: a\.pt, b\.txt$/],
  ['two models', { 'b.onnx': 'x', 'a.onnx': 'x' }, /found a\.onnx, b\.onnx$/],
  ['an empty model', { 'm.onnx': '' }, /m\.onnx: expected an ONNX model, found an empty file$/],
  ['a web page', { 'm.onnx': '  <html><body>404' }, /found a web page \(HTML\)/],
  [
    'a pointer of Git LFS',
    { 'm.onnx': 'version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n' },
    /found a Git LFS pointer instead of the file; `git lfs pull` fetches it$/,
  ],
  [
    'a message of an API',
    { 'm.onnx': '{"message": "Not Found"}' },
    /found a JSON text, as hubs answer with an error$/,
  ],
  ['a packed file', { 'm.onnx': '\u001f\u008b\u0008' }, /found a gzip archive; unpack it first$/],
];
for (const [what, files, message] of REFUSED) {
  test(`a directory with ${what} is refused by what it holds`, async (t) => {
    await assert.rejects(findModelFile(await folderWith(t, files)), { code: 'model_unavailable', message });
  });
}

test('a file instead of the directory, a folder instead of the model, and no directory at all have different errors', async (t) => {
  const folder = await folderWith(t, { 'm.onnx': 'x' });
  const refused = (path: string, message: RegExp) =>
    assert.rejects(findModelFile(path), { code: 'model_unavailable', message });
  await refused(
    join(folder, 'm.onnx'),
    /cannot be read: it is a file; expected the directory that holds m\.onnx$/,
  );
  await refused(join(folder, 'nowhere'), /nowhere cannot be read: there is no such directory$/);
  await mkdir(join(folder, 'inner', 'm.onnx'), { recursive: true });
  await refused(join(folder, 'inner'), /m\.onnx cannot be read: it is not a file$/);
});

test('anything that may be a model is found', async (t) => {
  const folder = await folderWith(t, { 'm.onnx': '\u0008\u0008', 'weights.bin': 'x' });
  assert.equal(await findModelFile(folder), join(folder, 'm.onnx'));
});
