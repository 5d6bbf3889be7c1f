/** The list of servers on a command line, the page of their statistics, and the files of a log. */
import assert from 'node:assert/strict';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { test } from 'node:test';
import { page } from '../../../lib/http/page.ts';
import { FileLog, logLines } from '../../../lib/workers/log.ts';
import { startPage } from '../../../local/decentral/control.ts';
import { readServers } from '../../../local/decentral/servers.ts';
import { temporaryFolder } from '../../support/runner.ts';

test('a list of servers is JSON, or what a shell leaves of it', () => {
  const servers = [
    ['10.40.34.16', 8068, 8069],
    ['gpu-1.local', 1, 65_535],
  ];
  for (const text of [
    JSON.stringify(servers),
    '[[10.40.34.16, 8068, 8069], [gpu-1.local, 1, 65535]]',
    "[ ['10.40.34.16',8068,8069],['gpu-1.local',1,65535] ]",
    '\n[[10.40.34.16,8068,8069]  ,\t[gpu-1.local,1,65535] ] ',
  ]) {
    assert.deepEqual(readServers(text), servers);
  }
  assert.deepEqual(readServers('[["::1", 1, 2]]'), [['::1', 1, 2]]);
});

test('any other list of servers is refused', () => {
  for (const text of [
    '',
    '[]',
    '[[]]',
    '[',
    '[10.0.0.1, 1, 2]',
    '[[a, 1, 2]',
    '[[a, 1, 2] [b, 1, 2]]',
    '[[a, 1, 2],]',
    '[[a, 1, 2][b, 1, 2]]',
    '[,[a, 1, 2]]',
    '[[a, 1, 2, 3]]',
    '[[a b, 1, 2]]',
    '[["a\', 1, 2]]',
    '[[a, 0, 2]]',
    '[[a, 1, 65536]]',
    '[[a, 1.5, 2]]',
    `[${Array.from({ length: 101 }, () => '[a, 1, 2]').join()}]`,
    `[[${'a'.repeat(300)}, 1, 2]]`,
    `[[a, 1, 2]${' '.repeat(70_000)}]`,
  ]) {
    assert.throws(
      () => readServers(text),
      { code: 'bad_config', message: /^-remote_servers: / },
      text.slice(0, 40),
    );
  }
});

test('a log has a file for each day and stream, and a limited number of full ones', async (t) => {
  const folder = await temporaryFolder(t);
  let day = 8;
  const log = new FileLog(join(folder, 'logs'), 'w', () => new Date(2026, 2, day), { bytes: 10, files: 3 });
  for (let i = 0; i < 9; i++) log.write('log', Buffer.from(`line ${i}\n`));
  log.write('err', Buffer.from('a line over the limit\n'));
  day = 9;
  log.write('log', Buffer.from('ok\n'));
  const names = (await readdir(join(folder, 'logs'))).toSorted();
  const texts = await Promise.all(names.map((name) => readFile(join(folder, 'logs', name), 'utf8')));
  assert.deepEqual(Object.fromEntries(names.map((name, i) => [name, texts[i]])), {
    'w_2026-03-08.err': 'a line over the limit\n',
    'w_2026-03-08.log': 'line 8\n',
    'w_2026-03-08.log.1': 'line 7\n',
    'w_2026-03-08.log.2': 'line 6\n',
    'w_2026-03-09.log': 'ok\n',
  });
});

test('lines are logged whole, and one without an end when it is long or the last', async () => {
  const written: string[] = [];
  const input = new PassThrough();
  logLines(input, { write: (_, lines) => void written.push(Buffer.from(lines).toString()) }, 'log');
  for (const chunk of ['a', 'b\nc', '\nd\ne', 'x'.repeat(70_000), 'end']) input.write(chunk);
  input.end();
  await new Promise((resolve) => input.once('close', resolve));
  assert.deepEqual(written, ['ab\n', 'c\nd\n', `e${'x'.repeat(70_000)}`, 'end\n']);
});

test('the page of a server has the headers of every page, so that no other site frames it', async (t) => {
  const { port, close } = await startPage(0, () => '<p>1</p>');
  t.after(close);
  const response = await fetch(`http://127.0.0.1:${port}/stat`);
  const expected = page('').headers as Record<string, string>;
  const got = Object.keys(expected).map((name) => [name, response.headers.get(name)]);
  assert.deepEqual([Object.fromEntries(got), await response.text()], [expected, '<p>1</p>']);
});
