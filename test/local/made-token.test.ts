/** The token that a service makes for its callers: at the first start, once, for its user alone. */
import assert from 'node:assert/strict';
import { readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { readAccess, readToken } from '../../local/machine/access.ts';
import { claimFolder, deleteFolder, tokenFileOf } from '../../local/service/data-folder.ts';
import { temporaryFolder } from '../support/runner.ts';

test('the token is made once, is readable by its owner alone, and is deleted with the folder', async (t) => {
  const dataDir = join(await temporaryFolder(t), 'data');
  await claimFolder(dataDir);
  const file = await tokenFileOf(dataDir);
  const token = readToken(file);
  assert.match(token, /^[0-9a-f]{64}$/);
  assert.equal((await stat(file)).mode & 0o777, 0o600);
  assert.equal(await tokenFileOf(dataDir), file);
  assert.equal(await readFile(file, 'utf8'), `${token}\n`);
  await writeFile(`${file}.123`, 'of a process that was killed');
  assert.deepEqual(await deleteFolder(dataDir), []);
  await claimFolder(dataDir);
  assert.notEqual(readToken(await tokenFileOf(dataDir)), token);
});

test('one that was lost halfway is refused, never replaced by another or by none', async (t) => {
  const dataDir = await temporaryFolder(t);
  await writeFile(join(dataDir, 'token'), '', { mode: 0o600 });
  const file = await tokenFileOf(dataDir);
  assert.throws(() => readToken(file), { code: 'bad_config', message: /expected a token of 16 to 512/ });
});

test('--make-token lets other machines call, and goes with no other word about a token', () => {
  const { token, ...access } = readAccess({ host: '0.0.0.0', 'make-token': true });
  assert.deepEqual(access, { host: '0.0.0.0', allowedHosts: [] });
  // Never undefined, with which everybody may call.
  assert.match(token ?? '', /^[0-9a-f]{64}$/);
  for (const other of [{ 'no-token': true }, { 'token-file': 'token' }])
    assert.throws(() => readAccess({ 'make-token': true, ...other }), {
      code: 'bad_config',
      message: /^--\w+-\w+ and --\w+-\w+ exclude each other; give one$/,
    });
});
