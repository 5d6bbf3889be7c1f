/** The HTTP API of a local service is for this machine; for others there is a token, or the word that none is wanted. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { chmod, cp, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { InputQueue, OutputQueue } from '../../sdk/index.ts';
import { cli, IMAGES, MODEL, serviceFolder } from '../cli/cli.ts';
import { warmCli, warmCliJson } from '../cli/warm.ts';
import { answers, outerAddresses } from '../support/addresses.ts';
import { rawRequest } from '../support/raw-request.ts';
import { temporaryFolder } from '../support/runner.ts';
import { start, startReady } from '../support/start.ts';

const TOKEN = '0123456789abcdef-._~+/token==';
const IMAGE = join(IMAGES, 'digit-3.png');

async function tokenFile(t: TestContext, text = `${TOKEN}\n`, mode = 0o600): Promise<string> {
  const path = join(await temporaryFolder(t), 'token');
  await writeFile(path, text);
  await chmod(path, mode);
  return path;
}

async function dataDir(t: TestContext): Promise<string> {
  return join(await temporaryFolder(t), 'data');
}

const IMAGE_B64 = readFileSync(IMAGE, 'base64');
const instances = () => ({ instances: [{ image: IMAGE_B64 }] });

const bearer = (token: string) => ({ authorization: `Bearer ${token}` });
const portOf = (url: string) => Number(new URL(url).port);

/** What `start` says when it refuses its options. */
async function refusal(t: TestContext, ...options: string[]): Promise<string> {
  const { code, stderr } = await warmCli(['start', ...options, '--port', '0'], {
    cwd: await serviceFolder(t),
  });
  assert.equal(code, 2, options.join(' '));
  return stderr;
}

test('another address than loopback needs a token or the word that none is wanted, else exit code 2', async (t) => {
  for (const host of ['0.0.0.0', '::', '192.0.2.1', '2001:db8::1']) {
    const said = await refusal(t, '--host', host);
    assert.match(said, /lets other machines call; pass --token-file <file>.* or --no-token$/m);
  }
  const { exited, lines } = start(t, '--host', '0.0.0.0', '--port', '0');
  assert.equal(await exited, 2);
  assert.match(lines.join('\n'), /--token-file <file>.*--no-token/);
  for (const host of ['example.com', '127.0.0.1.evil.example', '0', '', 'x.localhost']) {
    const said = await refusal(t, '--host', host, '--no-token');
    assert.match(said, /--host: expected an address of this machine or localhost/);
  }
  const both = await refusal(t, '--no-token', '--token-file', await tokenFile(t));
  assert.match(both, /--token-file and --no-token exclude each other/);
});

test("a token file is its owner's alone and holds one token, else it is refused and not shown", async (t) => {
  const secret = 'secret-content-of-a-file';
  const refused: [string, RegExp][] = [
    [await tokenFile(t, secret, 0o640), /other users may use it; run: chmod 600 /],
    [await tokenFile(t, secret, 0o604), /other users may use it/],
    [await tokenFile(t, secret, 0o620), /other users may use it/],
    [await tokenFile(t, ''), /expected a token of 16 to 512/],
    [await tokenFile(t, secret.slice(0, 15)), /expected a token of 16 to 512/],
    [await tokenFile(t, `${secret} ${secret}`), /expected a token of 16 to 512/],
    [await tokenFile(t, `${secret}\n${secret}\n`), /expected a token of 16 to 512/],
    [await tokenFile(t, `${secret}ä`), /expected a token of 16 to 512/],
    [await tokenFile(t, secret.repeat(50)), /expected a token of 16 to 512/],
    [join(await temporaryFolder(t), 'none'), /no such file.*openssl rand -hex 32/],
  ];
  for (const [path, expected] of refused) {
    const said = await refusal(t, '--token-file', path);
    assert.match(said, expected);
    assert.ok(!said.includes('secret'), said);
  }
});

test('with a token every route needs it, on each address, and SQS, S3 and Redis stay on this machine', async (t) => {
  const file = await tokenFile(t);
  const options = ['--host', '0.0.0.0', '--token-file', file, '--data-dir', await dataDir(t)];
  const { addresses, lines } = await startReady(t, ...options);
  assert.match(addresses.http, /^http:\/\/localhost:\d+$/);
  assert.equal(addresses.sample.right, 10);
  assert.ok(!lines.join('\n').includes(TOKEN));
  const port = portOf(addresses.http);
  const hosts = ['127.0.0.1', ...outerAddresses()];
  for (const host of hosts) {
    const url = `http://${host}:${port}`;
    for (const [method, path] of [
      ['GET', '/'],
      ['GET', '/ready'],
      ['GET', '/metrics'],
      ['POST', '/predict'],
      ['DELETE', '/predictions'],
      ['GET', '/v2'],
      ['GET', '/nothing'],
    ] as const) {
      const refused = await fetch(url + path, { method });
      assert.equal(refused.status, 401, `${method} ${url}${path}`);
      assert.equal(refused.headers.get('www-authenticate'), 'Bearer');
      const { error, code } = (await refused.json()) as { error: string; code: string };
      assert.equal(code, 'unauthorized');
      assert.match(error, /Authorization: Bearer <token>/);
    }
    assert.equal((await fetch(`${url}/ready`, { headers: bearer(TOKEN) })).status, 200, url);
  }
  for (const authorization of [
    '',
    'Bearer',
    'Bearer ',
    TOKEN,
    `Basic ${TOKEN}`,
    `Bearer ${TOKEN.slice(0, -1)}`,
    `Bearer ${TOKEN}=`,
    `Bearer ${TOKEN} ${TOKEN}`,
    `Bearer x ${TOKEN}`,
    `Bearer ${TOKEN.toUpperCase()}`,
    `Bearer${TOKEN}`,
  ])
    assert.equal((await rawRequest(port, { headers: { authorization } })).status, 401, authorization);
  assert.equal((await rawRequest(port, { headers: { authorization: `bearer ${TOKEN}` } })).status, 200);
  const foreign = { host: 'evil.example', ...bearer(TOKEN) };
  assert.equal((await rawRequest(port, { headers: foreign })).status, 403);
  for (const url of [addresses.redisUrl, addresses.environment['AWS_ENDPOINT_URL'] ?? '']) {
    assert.ok(await answers('127.0.0.1', portOf(url)));
    for (const host of outerAddresses()) assert.equal(await answers(host, portOf(url)), false, url);
  }
});

test('with --make-token a pasted line is answered, others get 401, and a restart keeps the token', async (t) => {
  const folder = await serviceFolder(t);
  const options = ['--host', '0.0.0.0', '--port', '0', '--make-token'];
  const started = await warmCli(['start', ...options], { cwd: folder });
  assert.equal(started.code, 0, started.stderr);
  const callOf = (text: string) => String(/^ {2}call {4}(curl .*)$/m.exec(text)?.[1]);
  const called = spawnSync('sh', ['-c', `${callOf(started.stdout)} -s`], { encoding: 'utf8' });
  assert.match(called.stdout, /^\{"predictions":\["\{value=/, callOf(started.stdout));
  const port = portOf(String(/ready (\S+)/.exec(started.stdout)?.[1]));
  for (const host of ['127.0.0.1', ...outerAddresses()])
    assert.equal((await fetch(`http://${host}:${port}/ready`)).status, 401, host);
  const tokenOf = (text: string) => /Bearer ([0-9a-f]{64})/.exec(text)?.[1];
  const shown = await warmCli(['status'], { cwd: folder });
  assert.equal(callOf(shown.stdout), callOf(started.stdout));
  const again = await warmCli(['restart'], { cwd: folder });
  assert.equal(again.code, 0, again.stderr);
  const kept = await readFile(join(folder, '.cluster-serving', 'token'), 'utf8');
  assert.equal(kept, `${tokenOf(started.stdout)}\n`);
  const { http } = (await warmCliJson(['status'], { cwd: folder })).json as { http: string };
  assert.equal((await fetch(`${http}/ready`)).status, 401);
  assert.equal((await fetch(`${http}/ready`, { headers: bearer(kept.trim()) })).status, 200);
});

test('with --no-token other machines call without one', async (t) => {
  const open = await startReady(t, '--host', '0.0.0.0', '--no-token', '--data-dir', await dataDir(t));
  for (const host of ['127.0.0.1', ...outerAddresses()]) {
    const url = `http://${host}:${portOf(open.addresses.http)}/ready`;
    assert.equal((await fetch(url)).status, 200, url);
  }
});

test('on loopback a token can be asked for too; the SDK sends it, and never shows one', async (t) => {
  const { addresses } = await startReady(
    t,
    '--token-file',
    await tokenFile(t),
    '--data-dir',
    await dataDir(t),
  );
  const ready = `${addresses.http}/ready`;
  assert.equal((await fetch(ready)).status, 401);
  assert.equal((await fetch(ready, { headers: bearer(TOKEN) })).status, 200);
  const open = (token?: string) => {
    const more = token === undefined ? {} : { token };
    const input = new InputQueue({ frontendUrl: addresses.http, ...more });
    const output = new OutputQueue({ url: addresses.http, ...more });
    t.after(() => Promise.all([input.close(), output.close()]));
    return { input, output };
  };
  const { input, output } = open(TOKEN);
  const { identity } = await input.enqueue('u', { image: IMAGE });
  assert.equal((await output.wait('u', { identity })).outputs[0]?.shape[0], 10);
  assert.equal(await output.status('u'), 'succeeded');
  assert.match(String(await input.predict(instances())), /^\{value=/);
  for (const token of [undefined, `${TOKEN}=`]) {
    const others = open(token);
    const asks = [
      () => others.input.enqueue('v', { image: IMAGE }),
      () => others.input.predict(instances()),
      () => others.output.query('u'),
      () => others.output.cancel('u'),
    ];
    for (const ask of asks) {
      await assert.rejects(ask(), (error: Error & { code: string }) => {
        assert.equal(error.code, 'unauthorized');
        assert.match(error.message, /needs its token/);
        return !error.message.includes(TOKEN);
      });
    }
  }
  for (const token of ['', 'short', `${TOKEN}\r\nx: y`, `${TOKEN}ä`, 'x'.repeat(8_193)])
    assert.throws(() => open(token), {
      code: 'bad_config',
      message: /^token: expected 16 to 8192 [^ä\r\n]*$/,
    });
});

test('the commands find the token of the local service, and take that of another', async (t) => {
  const [file, folder, elsewhere] = [await tokenFile(t), await serviceFolder(t), await serviceFolder(t)];
  const started = await warmCli(['start', '--port', '0', '--token-file', file], { cwd: folder });
  assert.equal(started.code, 0, started.stderr);
  const http = String(/ready (\S+)/.exec(started.stdout)?.[1]);
  for (const each of [folder, elsewhere]) {
    await cp(MODEL, join(each, 'model'), { recursive: true });
    await writeFile(join(each, 'ask.json'), JSON.stringify(instances()));
  }
  const commands = [
    ['model', 'golden', 'add', 'model', '--request', 'ask.json'],
    ['status'],
    ['predict', IMAGE],
    ['enqueue', `u=${IMAGE}`],
    ['query', 'u', '--wait', '20'],
  ];
  for (const args of commands) {
    const here = await warmCli(args, { cwd: folder });
    assert.equal(here.code, 0, `${args.join(' ')}: ${here.stdout}${here.stderr}`);
    const there = await warmCli([...args, '--url', http, '--token-file', file], { cwd: elsewhere });
    assert.equal(there.code, 0, `${args.join(' ')}: ${there.stdout}${there.stderr}`);
    // The token of the local service is not sent to another, not even in its folder.
    const without = await warmCli([...args, '--url', http], { cwd: folder });
    assert.notEqual(without.code, 0, args.join(' '));
    assert.match(without.stdout + without.stderr, /needs its token.*--token-file/);
  }
  const body = JSON.stringify({ uris: ['w'], ...instances() });
  const request = await cli(['enqueue', '--file', '-'], { cwd: folder, stdin: body });
  assert.equal(request.code, 0, request.stderr);

  const again = await warmCli(['restart', '--token-file', file], { cwd: folder });
  assert.equal(again.code, 0, again.stderr);
  const opened = await warmCli(['restart', '--no-token'], { cwd: folder });
  assert.equal(opened.code, 0, opened.stderr);
  const { http: now } = (await warmCliJson(['status'], { cwd: folder })).json as { http: string };
  assert.equal((await fetch(`${now}/ready`)).status, 200);
});
