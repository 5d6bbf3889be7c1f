/** The list of servers on a command line, the control channel and its token, the page of statistics, and the files of a log. */
import assert from 'node:assert/strict';
import { readdir, readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { test } from 'node:test';
import { badConfig } from '../../../lib/contract/errors.ts';
import { page } from '../../../lib/http/page.ts';
import { FileLog, logLines } from '../../../lib/workers/log.ts';
import { startControl, startPage } from '../../../local/decentral/control.ts';
import { readServers } from '../../../local/decentral/servers.ts';
import { findControls, makeToken } from '../../../local/machine/token.ts';
import { temporaryFolder } from '../../support/runner.ts';
import { slowDisk } from '../../support/slow-disk.ts';

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

test('a list has up to 100 servers and 64 KiB, and an error shows 200 characters of it', () => {
  const list = (count: number) => `[${Array.from({ length: count }, () => '[a, 1, 2]').join()}]`;
  assert.equal(readServers(list(100)).length, 100);
  const long = `[[a, 1, 2]${' '.repeat(64 * 1024 - 11)}]`;
  assert.deepEqual(readServers(long), [['a', 1, 2]]);
  for (const [text, problem] of [
    [list(101), '101 servers, of 1 to 100'],
    ['[]', '0 servers, of 1 to 100'],
    [`${long} `, '65537 characters are over the limit of 65536'],
    ['[a, 1, 2', 'no list'],
    ['a, 1, 2]', 'no list'],
    ['[[a, 1, 2],]', 'server 2 is malformed'],
    ['[[a, 0, 2]]', '0 is no port from 1 to 65535'],
    ['[[a, 1, 65536]]', '65536 is no port from 1 to 65535'],
  ] as const) {
    const shown = JSON.stringify(text.length > 200 ? `${text.slice(0, 200)}…` : text);
    assert.throws(() => readServers(text), {
      message: `-remote_servers: ${problem}; expected [[ip, port, port_out], ...], got ${shown}`,
    });
  }
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
  const server = await startPage(0, () => '<p>1</p>');
  const { port } = server;
  t.after(() => server.close());
  const response = await fetch(`http://127.0.0.1:${port}/stat`);
  const expected = page('').headers as Record<string, string>;
  const got = Object.keys(expected).map((name) => [name, response.headers.get(name)]);
  assert.deepEqual([Object.fromEntries(got), await response.text()], [expected, '<p>1</p>']);
});

test('a page and a control channel answer what they are for, and no foreign host', async (t) => {
  const server = await startPage(0, () => '<p>1</p>');
  t.after(() => server.close());
  const at = `http://127.0.0.1:${server.port}`;
  const codeOf = async (path: string, init: RequestInit = {}) => {
    const response = await fetch(at + path, init);
    return [response.status, ((await response.json()) as { code: string }).code];
  };
  assert.deepEqual(await codeOf('/'), [404, 'not_found']);
  assert.deepEqual(await codeOf('/stat', { method: 'POST' }), [404, 'not_found']);
  const origin = { method: 'POST', headers: { origin: 'https://a.example' } };
  assert.deepEqual(await codeOf('/stat', origin), [403, 'unauthorized']);
});

test('a body of the control channel has at most 128 KiB, and is an object or nothing', async (t) => {
  const verbs = { echo: async (body: object) => body, fails: () => Promise.reject(badConfig('why')) };
  const server = await startControl(0, Promise.resolve('t'.repeat(16)), verbs);
  const { port } = server;
  t.after(() => server.close());
  let asks: string | null = null;
  const send = async (body: string, verb = 'echo', headers: Record<string, string> = {}) => {
    const authorization = `Bearer ${'t'.repeat(16)}`;
    const init = { method: 'POST', body, headers: { authorization, ...headers } };
    const response = await fetch(`http://127.0.0.1:${port}/control/${verb}`, init);
    asks = response.headers.get('www-authenticate');
    return [response.status, await response.json()] as const;
  };
  const limit = 128 * 1024;
  const text = 'x'.repeat(limit - 8);
  assert.deepEqual(await send(`{"x":"${text}"}`), [
    200,
    { error_code: 0, error_message: '', data: { x: text } },
  ]);
  assert.deepEqual(await send(''), [200, { error_code: 0, error_message: '', data: {} }]);
  const refused = (status: number, code: string, message: string) =>
    [status, { error_code: status, error_message: message, data: null, code }] as const;
  for (const [found, status, code, message] of [
    [await send(`{"x":"${text}x"}`), 413, 'too_large', `the body is over ${limit} bytes`],
    [await send('{'), 400, 'bad_request', 'the body is no JSON'],
    [await send('[]'), 400, 'bad_request', 'the body is no object'],
    [await send('null'), 400, 'bad_request', 'the body is no object'],
    [await send('1'), 400, 'bad_request', 'the body is no object'],
    [await send('', 'fails'), 400, 'bad_config', 'why'],
    [await send('', 'other'), 404, 'not_found', 'expected POST /control/{verb}'],
    [await send('', 'toString'), 404, 'not_found', 'expected POST /control/{verb}'],
    [
      await send('', 'echo', { authorization: `Bearer ${'u'.repeat(16)}` }),
      401,
      'unauthorized',
      'this service needs the token of its port',
    ],
    [
      await send('', 'echo', { origin: 'https://a.example' }),
      403,
      'unauthorized',
      'this Host or Origin is not allowed',
    ],
  ] as const)
    assert.deepEqual(found, refused(status, code, message));
  assert.equal(asks, null);
  await send('', 'echo', { authorization: '' });
  assert.equal(asks, 'Bearer');
});

test('the token of a port is in a file for its user alone, and is found by the port and the address', async (t) => {
  const folder = join(await temporaryFolder(t), 'new', 'deep');
  const { WKR_CONTROL_DIR: before } = process.env;
  process.env['WKR_CONTROL_DIR'] = folder;
  t.after(() => {
    if (before === undefined) delete process.env['WKR_CONTROL_DIR'];
    else process.env['WKR_CONTROL_DIR'] = before;
  });
  slowDisk(t, ['mkdir', 'rm', 'writeFile', 'rename']);
  const { token } = await makeToken(7);
  assert.match(token, /^[0-9a-f]{64}$/);
  // Of a process of the same id that was killed.
  await writeFile(join(folder, `7.token.${process.pid}`), 'half', { mode: 0o644 });
  const again = await makeToken(7, 'a'.repeat(16));
  await makeToken(7, 'b'.repeat(16), '::1');
  const modes = await Promise.all(
    [folder, join(folder, '7.token')].map(async (path) => (await stat(path)).mode & 0o777),
  );
  assert.deepEqual(modes, [0o700, 0o600]);
  assert.deepEqual(
    (await findControls(7)).toSorted((one, other) => one.host.localeCompare(other.host)),
    [
      { host: '::1', port: 7, token: 'b'.repeat(16) },
      { host: '127.0.0.1', port: 7, token: 'a'.repeat(16) },
    ],
  );
  assert.deepEqual(await findControls(7, '::1'), [{ host: '::1', port: 7, token: 'b'.repeat(16) }]);
  // The token of 127.0.0.1 may be that of a service whose address was not noted.
  assert.deepEqual(await findControls(7, '::2'), [{ host: '::2', port: 7, token: 'a'.repeat(16) }]);
  await again.forget();
  assert.deepEqual(await findControls(7, '127.0.0.1'), [{ host: '127.0.0.1', port: 7, token: undefined }]);
  assert.deepEqual(await findControls(77), [{ host: '127.0.0.1', port: 77, token: undefined }]);
  await writeFile(join(folder, '8.token'), 'short');
  assert.deepEqual(await findControls(8), [{ host: '127.0.0.1', port: 8, token: undefined }]);
  process.env['WKR_CONTROL_DIR'] = join(folder, '8.token');
  await assert.rejects(makeToken(8), {
    code: 'bad_config',
    message: /^the token of port 8 cannot be kept: /,
  });
});
