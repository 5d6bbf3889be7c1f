/** predict, enqueue and query against one service in the background. */
import assert from 'node:assert/strict';
import { copyFile, mkdir, readFile, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import type { StackRecord } from '../../local/service/data-folder.ts';
import { until } from '../support/until.ts';
import { type CliAnswer, cleaningUp, cli, cliJson, IMAGES, MODEL, serviceFolder } from './cli.ts';
import { warmCli, warmCliJson } from './warm.ts';

interface Results {
  readonly results: readonly {
    readonly uri: string;
    readonly status: string;
    readonly code?: string;
    readonly outputs?: readonly { readonly data: readonly number[] }[];
  }[];
}

interface Enqueued {
  readonly enqueued: number;
  readonly failed: readonly { readonly uri: string; readonly code: string; readonly error: string }[];
  readonly uris?: readonly string[];
}

const image = (digit: number) => join(IMAGES, `digit-${digit}.png`);

const classes = ({ results }: Results) =>
  results.map(({ outputs }) => {
    const data = outputs?.[0]?.data ?? [];
    return data.indexOf(Math.max(...data));
  });

describe('with a service in the background', () => {
  let cwd: string;
  let service: StackRecord;

  const cleanups: (() => Promise<void>)[] = [];

  before(
    cleaningUp(cleanups, async () => {
      cwd = await serviceFolder({ after: (cleanup) => cleanups.push(cleanup) });
      await writeFile(join(cwd, 'config.yaml'), `modelPath: ${MODEL}\nimageResize: 8,8\n`);
      const started = (await warmCliJson(['start', '--port', '0'], { cwd })) as CliAnswer<StackRecord>;
      assert.equal(started.code, 0, started.stderr);
      service = started.json;
    }),
  );

  after(async () => {
    for (const cleanup of cleanups) await cleanup();
  });

  test('predict answers every image in order, by position, for any name of the input', async () => {
    const { json } = (await warmCliJson(['predict', image(3), image(8), '--input', 'whatever'], {
      cwd,
    })) as CliAnswer<{ predictions: string[] }>;
    const found = json.predictions.map((text) => {
      const { data } = JSON.parse(text.slice('{value='.length, -1)) as { data: number[] };
      return data.indexOf(Math.max(...data));
    });
    assert.deepEqual(found, [3, 8]);
    const { stdout } = await warmCli(['predict', image(3)], { cwd });
    assert.match(stdout, /^.*digit-3\.png {2}\{value=\{"data":\[5\.96\d+E-8,.*"shape":\[10\]\}\}\n$/);
  });

  test("predict takes a JSON request from a file and from stdin, and tells the service's own error", async () => {
    const b64 = (await readFile(image(5))).toString('base64');
    const body = JSON.stringify({ instances: [{ image: b64 }, { image: { b64 } }] });
    await writeFile(join(cwd, 'request.json'), body);
    const fromFile = await warmCli(['predict', 'request.json'], { cwd });
    assert.equal(fromFile.stdout.trim().split('\n').length, 2);
    assert.equal((await cli(['predict', '-'], { cwd, stdin: body })).stdout, fromFile.stdout);

    const wrong = (await cliJson(['predict', '-'], {
      cwd,
      stdin: '{"instances": [{"image": "bm8gaW1hZ2U="}]}',
    })) as CliAnswer<{ error: string; code: string }>;
    assert.deepEqual([wrong.code, wrong.json.code], [1, 'bad_input']);
    assert.equal(wrong.stderr.trim(), `error: ${wrong.json.error}`);
  });

  test('more images than one request may hold are all answered', async () => {
    const many = Array.from({ length: 205 }, (_, i) => image(i % 10));
    const { json } = (await warmCliJson(['predict', ...many], { cwd })) as CliAnswer<{
      predictions: string[];
    }>;
    assert.equal(json.predictions.length, 205);
    assert.equal(new Set(json.predictions).size, 10);
  });

  test('enqueue takes uri=image, uris with "=" included, and query waits for them in order', async () => {
    await copyFile(image(6), join(cwd, 'a=b.png'));
    const enqueued = (await warmCliJson(
      ['enqueue', `a:b=${image(1)}`, `x?id=2=${image(2)}`, 'plain=a=b.png'],
      {
        cwd,
      },
    )) as CliAnswer<Enqueued>;
    assert.deepEqual([enqueued.code, enqueued.json], [0, { enqueued: 3, failed: [] }]);
    const uris = ['a:b', 'x?id=2', 'plain'];
    const { code, json } = (await warmCliJson(['query', ...uris, '--wait', '20'], {
      cwd,
    })) as CliAnswer<Results>;
    assert.equal(code, 0);
    assert.deepEqual(
      json.results.map(({ uri }) => uri),
      uris,
    );
    assert.deepEqual(classes(json), [1, 2, 6]);
    const { stdout } = await cli(['query', 'a:b'], { cwd });
    assert.match(stdout, /^a:b {2}probabilities float32\[10\] {2}largest 0\.99\d+ at 1 {2}.*, …\n$/);
  });

  test('a file that cannot be read is named and keeps no other record out', async () => {
    const { code, json, stderr } = (await warmCliJson(
      ['enqueue', 'missing=nowhere.png', `there=${image(4)}`],
      {
        cwd,
      },
    )) as CliAnswer<Enqueued>;
    assert.equal(code, 1);
    assert.equal(json.enqueued, 1);
    assert.deepEqual(
      json.failed.map(({ uri, code: why }) => [uri, why]),
      [['missing', 'bad_request']],
    );
    assert.match(stderr, /^error: missing: input "image": .*nowhere\.png/);
    assert.equal((await warmCli(['query', 'there', '--wait', '20'], { cwd })).code, 0);
  });

  test('a uri may be enqueued again, and the picture that was enqueued last is the one that counts', async () => {
    for (const digit of [1, 1, 2]) {
      assert.equal((await warmCli(['enqueue', `used=${image(digit)}`], { cwd })).code, 0);
    }
    await until(async () => {
      const { json } = (await warmCliJson(['query', 'used', '--wait', '20'], { cwd })) as CliAnswer<Results>;
      return classes(json)[0] === 2;
    });
  });

  test('--dir enqueues every picture below a folder under its path, and --all --delete takes all results', async () => {
    await mkdir(join(cwd, 'pictures/sub'), { recursive: true });
    await copyFile(image(0), join(cwd, 'pictures/zero.png'));
    await copyFile(image(9), join(cwd, 'pictures/sub/NINE.PNG'));
    await writeFile(join(cwd, 'pictures/readme.txt'), 'no picture');
    const { json } = (await warmCliJson(['enqueue', '--dir', 'pictures', '--prefix', 'day1/'], {
      cwd,
    })) as CliAnswer<Enqueued>;
    assert.equal(json.enqueued, 2);
    const uris = ['day1/sub/NINE.PNG', 'day1/zero.png'];
    const results = (await warmCliJson(['query', ...uris, '--wait', '20'], { cwd })) as CliAnswer<Results>;
    assert.deepEqual(classes(results.json), [9, 0]);

    assert.equal((await warmCli(['query', '--all'], { cwd })).code, 2);
    const all = (await warmCliJson(['query', '--all', '--delete'], { cwd })) as CliAnswer<Results>;
    const found = all.json.results.map(({ uri }) => uri);
    assert.ok(uris.every((uri) => found.includes(uri)));
    const none = (await warmCliJson(['query', '--all', '--delete'], { cwd })) as CliAnswer<Results>;
    assert.deepEqual([none.code, none.json], [0, { results: [] }]);
  });

  test('--file takes records as the SDK does, one a line or as an array, and requests as HTTP does', async () => {
    const pixels: number[] = Array(192).fill(0);
    const lines = [
      { uri: 'l1', inputs: { image: image(1) } },
      { uri: 'l2', inputs: { image: { b64: (await readFile(image(2))).toString('base64') } } },
      { uri: 'l3', inputs: { image: { data: pixels, shape: [3, 8, 8] } } },
    ].map((record) => JSON.stringify(record));
    await writeFile(join(cwd, 'records.jsonl'), `${lines.join('\n')}\n`);
    assert.equal(
      ((await warmCliJson(['enqueue', '--file', 'records.jsonl'], { cwd })) as CliAnswer<Enqueued>).json
        .enqueued,
      3,
    );
    const array = `[{"uri": "array", "inputs": {"image": {"path": ${JSON.stringify(image(5))}}}}]`;
    assert.equal((await cli(['enqueue', '--file', '-'], { cwd, stdin: array })).code, 0);
    const b64 = (await readFile(image(7))).toString('base64');
    const request = JSON.stringify({ instances: [{ image: b64 }, { image: b64 }], uris: ['r1', 'r2'] });
    const asked = (await cliJson(['enqueue', '--file', '-'], { cwd, stdin: request })) as CliAnswer<Enqueued>;
    assert.deepEqual(asked.json, { enqueued: 2, failed: [], uris: ['r1', 'r2'] });
    const uris = ['l1', 'l2', 'array', 'r1', 'r2'];
    const { json } = (await warmCliJson(['query', ...uris, 'l3', '--wait', '20'], {
      cwd,
    })) as CliAnswer<Results>;
    assert.deepEqual(classes(json).slice(0, 5), [1, 2, 5, 7, 7]);
    assert.equal(json.results[5]?.status, 'succeeded');
  });

  test('a failed record is exit code 1 with its reason, one that is not there is 4, --delete removes both kinds', async () => {
    const bad = '{"uri": "bad", "inputs": {"image": [1, 2, 3]}}';
    assert.equal((await cli(['enqueue', '--file', '-'], { cwd, stdin: bad })).code, 0);
    assert.equal((await warmCli(['query', 'bad', '--wait', '20'], { cwd })).code, 1);
    const failed = (await warmCliJson(['query', 'bad', 'never'], { cwd })) as CliAnswer<Results>;
    assert.equal(failed.code, 1);
    assert.deepEqual(
      failed.json.results.map(({ uri, status, code }) => [uri, status, code]),
      [
        ['bad', 'failed', 'bad_input'],
        ['never', 'pending', undefined],
      ],
    );
    const text = await warmCli(['query', 'bad', '--delete'], { cwd });
    assert.equal(text.code, 1);
    assert.match(text.stdout, /^bad {2}failed: .*\(bad_input\)\n$/);
    const gone = await warmCli(['query', 'bad'], { cwd });
    assert.deepEqual([gone.code, gone.stdout], [4, 'bad  no result (yet)\n']);
  });

  test('addresses as options serve the same from any folder: over HTTP, and through SQS and Redis', async () => {
    const http = ['--url', service.http];
    assert.equal((await warmCli(['status', ...http])).code, 0);
    assert.equal((await warmCli(['predict', image(3), ...http])).code, 0);
    assert.equal((await warmCli(['enqueue', `http=${image(3)}`, ...http])).code, 0);
    const overHttp = (await warmCliJson(['query', 'http', '--wait', '20', ...http])) as CliAnswer<Results>;
    assert.deepEqual(classes(overHttp.json), [3]);

    const env = service.environment;
    const queued = await warmCli(['enqueue', `sqs=${image(2)}`, '--queue-url', service.queueUrl], { env });
    assert.equal(queued.code, 0, queued.stderr);
    const found = await warmCli(['enqueue', `aws=${image(4)}`], { env });
    assert.equal(found.code, 0, found.stderr);
    const redis = ['--redis-url', service.redisUrl];
    const { json } = (await warmCliJson([
      'query',
      'sqs',
      'aws',
      '--wait',
      '20',
      ...redis,
    ])) as CliAnswer<Results>;
    assert.deepEqual(classes(json), [2, 4]);
  });

  test('a server that is another one is said to be that, not a defect', async (t) => {
    const server = createServer((_, response) => response.end('<html>'));
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    t.after(() => server.close());
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const predict = await warmCli(['predict', image(1), '--url', url]);
    assert.deepEqual(
      [predict.code, predict.stderr],
      [2, `error: ${url}/predict answered, but not as this service does\n`],
    );
    const status = await warmCli(['status', '--url', url]);
    assert.deepEqual([status.code, status.stdout.includes('did not answer as this service does')], [4, true]);
    server.closeAllConnections();
  });

  test('--canary-key is the header of each request, and one that is none is refused before any', async (t) => {
    const seen: string[] = [];
    const server = createServer((request, response) => {
      request.resume();
      seen.push(`${request.url} ${request.headers['canary-key']}`);
      const answer = { predictions: ['{value=[1]}'], uri: 'a', identity: 'i' };
      response.setHeader('content-type', 'application/json').end(JSON.stringify(answer));
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    t.after(() => {
      server.closeAllConnections();
      server.close();
    });
    const where = ['--url', `http://127.0.0.1:${(server.address() as AddressInfo).port}`, '--job', 'j'];
    const key = ['--canary-key', 'user-1'];
    const table = join(cwd, 'table.csv');
    await writeFile(table, 'x\n1\n');
    const request = join(cwd, 'request.json');
    await writeFile(request, '{"instances":[{"x":1}]}');
    const lines = [
      ['predict', image(1)],
      ['predict', '--file', table],
      ['enqueue', `a=${image(1)}`],
      ['enqueue', '--file', request],
    ];
    for (const line of lines) {
      const refused = await warmCli([...line, ...where, '--canary-key', 'a b'], { cwd });
      assert.match(refused.stderr, /canary-key: expected 1 to 128 letters/);
      assert.notEqual(refused.code, 0);
    }
    assert.equal(seen.length, 0);
    for (const line of lines) {
      const ran = await warmCli([...line, ...where, ...key], { cwd });
      assert.equal(ran.code, 0, ran.stderr);
    }
    const posted = seen.filter((one) => one.startsWith('/predict'));
    assert.deepEqual(posted, [
      '/predict user-1',
      '/predict user-1',
      '/predictions user-1',
      '/predictions user-1',
    ]);
    seen.length = 0;
    await warmCli(['predict', image(1), ...where], { cwd });
    assert.ok(seen.includes('/predict undefined'));
  });

  test('a command that lacks the address it needs says which option has it', async () => {
    const predict = await warmCli(['predict', image(1), '--redis-url', 'redis://x']);
    assert.match(predict.stderr, /Unknown option '--redis-url'/);
    const query = await warmCli(['query', 'x', '--job', 'other']);
    assert.deepEqual([query.code, query.stderr.includes('--url or --redis-url')], [2, true]);
    const job = await warmCli(['query', 'x', '--job', 'other'], { cwd });
    assert.match(job.stderr, /serves serving_stream, not the job other/);
    const url = await warmCli(['predict', image(1), '--url', 'localhost:1']);
    assert.deepEqual([url.code, url.stderr.includes('--url: expected http')], [2, true]);
  });
});
