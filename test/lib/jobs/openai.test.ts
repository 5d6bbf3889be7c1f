/** Batches in the form of OpenAI's API in a world in memory: which lines are refused, where each request ends, and how a batch ends. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { memberText } from '../../../lib/jobs/openai/lines.ts';
import { quietLog } from '../../support/faults/quiet.ts';
import { seeded } from '../../support/faults/seeds.ts';
import { BUCKET, NO_FAULTS, World } from './world.ts';

const ID = 'batch_0123456789ab';
const RUN = `${BUCKET}/jobs/digits/run/${ID}`;
const OUT = `${BUCKET}/jobs/digits/out/${ID}`;

interface OutputLine {
  readonly id: string;
  readonly custom_id: string;
  readonly response: { readonly status_code: number; readonly body: unknown } | null;
  readonly error: { readonly code: string } | null;
}

const line = (id: string, body: unknown, others: object = {}) =>
  JSON.stringify({ custom_id: id, method: 'POST', url: '/predict?form=plain', body, ...others });

/** A request of two records. */
const double = (id: string, x: number) => line(id, { instances: [{ x }, { x: x + 1 }] });

function ask(world: World, text: string | Buffer, createdAt = Math.floor(Date.now() / 1000)): void {
  const key = 'jobs/digits/uploads/file-1/';
  world.put(`${BUCKET}/${key}000000`, text);
  const batch = { endpoint: '/predict?form=plain', inputFileId: 'file-1', metadata: null, createdAt };
  const output = `s3://${BUCKET}/jobs/digits/out/${ID}/`;
  world.request(ID, { input: `s3://${BUCKET}/${key}`, output, batch });
}

async function run(text: string | Buffer): Promise<World> {
  const world = new World(seeded(1), NO_FAULTS);
  ask(world, text);
  await world.run();
  return world;
}

function linesOf(world: World, name: 'results' | 'errors'): OutputLine[] {
  const text = world.objects.get(`${OUT}/${name}.ndjson`)?.toString() ?? '';
  return text
    .split('\n')
    .slice(0, -1)
    .map((one) => JSON.parse(one) as OutputLine);
}

describe('a batch', () => {
  test('writes requests that were answered and others to two files, in order, each with its status and body', async () => {
    const world = await run(
      [
        double('a', 1),
        '',
        double('b', -2),
        line('c', { instances: [{ x: 'no' }] }),
        line('d', { instances: [{ x: 7 }] }),
      ].join('\r\n'),
    );
    assert.deepEqual(
      linesOf(world, 'results').map(({ custom_id: id, response, error }) => [
        id,
        response?.status_code,
        error,
      ]),
      [
        ['a', 200, null],
        ['d', 200, null],
      ],
    );
    const [first] = linesOf(world, 'results');
    assert.deepEqual(first?.response?.body, { outputs: { y: [[2], [4]] }, model: 'v1' });
    assert.equal(first.id, 'batch_req_0123456789ab_1');
    assert.deepEqual(
      linesOf(world, 'errors').map(({ custom_id: id, response }) => [
        id,
        response?.status_code,
        response?.body,
      ]),
      [
        ['b', 400, { error: 'instances[0]: x is -2', code: 'bad_request' }],
        ['c', 400, { error: 'x is NaN', code: 'bad_request' }],
      ],
    );
    const file = JSON.parse(world.text(`${BUCKET}/jobs/digits/files/file-0123456789ab-error.json`));
    assert.equal(file.bytes, world.objects.get(`${OUT}/errors.ndjson`)?.length);
    assert.equal(file.purpose, 'batch_output');
  });

  test('with lines that cannot be used fails before one runs, and says which and why', async (t) => {
    quietLog(t);
    const cases: readonly (readonly [string | Buffer, string, number | null, string | null])[] = [
      ['', 'empty_file', null, null],
      ['\n \r\n', 'empty_file', null, null],
      [`${double('a', 1)}\nno`, 'invalid_json_line', 2, null],
      ['[1]', 'invalid_json_line', 1, null],
      [Buffer.from([0x7b, 0xff, 0x7d]), 'invalid_json_line', 1, null],
      [`${double('a', 1)}\n\n${double('a', 2)}`, 'duplicate_custom_id', 3, 'custom_id'],
      ['{"method":"POST"}', 'missing_required_parameter', 1, 'custom_id'],
      [line('a', null), 'missing_required_parameter', 1, 'body'],
      [line('a', 3), 'invalid_request', 1, 'body'],
      [line('', {}), 'invalid_custom_id', 1, 'custom_id'],
      [line('a', {}, { custom_id: 3 }), 'invalid_custom_id', 1, 'custom_id'],
      [line('a', {}, { url: '/v1/embeddings' }), 'url_mismatch', 1, 'url'],
      [line('a', {}, { method: 'GET' }), 'invalid_method', 1, 'method'],
    ];
    for (const [text, code, at, param] of cases) {
      const world = await run(text);
      const [found, ...others] = JSON.parse(world.text(`${RUN}/problems.json`)) as object[];
      assert.deepEqual({ ...found, message: '' }, { code, message: '', param, line: at }, String(text));
      assert.deepEqual(others, []);
      assert.ok(world.objects.has(`${RUN}/stop/failed.json`));
      assert.equal(world.ran, 0);
    }
  });

  test('of more than 50,000 requests fails, and one of as many does not', async (t) => {
    quietLog(t);
    const text = (count: number) =>
      Array.from({ length: count }, (_, i) => line(`r${i}`, { instances: [{ x: i }] })).join('\n');
    const world = await run(text(50_001));
    assert.match(world.text(`${RUN}/problems.json`), /"too_many_tasks".*"line":50001/);
    assert.equal(linesOf(await run(text(50_000)), 'results').length, 50_000);
  });

  test('with a line of any length before its end is refused, or read in its pieces', async (t) => {
    quietLog(t);
    const long = line('a', { instances: [{ x: 1 }], note: 'x'.repeat(9_000_000) });
    const world = await run(`${long}\n${double('b', 1)}`);
    // POST /predict takes no more either.
    assert.deepEqual(
      linesOf(world, 'errors').map(({ custom_id: id, response }) => [id, response?.status_code]),
      [['a', 413]],
    );
    assert.equal(linesOf(world, 'results').length, 1);
    assert.match(
      (await run('x'.repeat(40_000_000))).text(`${RUN}/problems.json`),
      /"This line has more than 33554432 bytes\."/,
    );
  });

  test('that is cancelled or expires has a line for each request, and those that had not run say so', async () => {
    for (const [stop, code] of [
      ['cancelled', 'batch_cancelled'],
      ['expired', 'batch_expired'],
    ] as const) {
      const world = new World(seeded(3), NO_FAULTS);
      ask(
        world,
        Array.from({ length: 30_000 }, (_, i) => line(`r${i}`, { instances: [{ x: i }] })).join('\n'),
      );
      await world.run(() => {
        if ([...world.objects.keys()].some((key) => key.startsWith(`${RUN}/parts/`)))
          world.put(`${RUN}/stop/${stop}.json`, '{}');
      });
      const [results, errors] = [linesOf(world, 'results'), linesOf(world, 'errors')];
      assert.ok(results.length > 0 && errors.length > 0, `${results.length} and ${errors.length}`);
      assert.deepEqual(
        [...results, ...errors].map(({ custom_id: id }) => id).toSorted(),
        Array.from({ length: 30_000 }, (_, i) => `r${i}`).toSorted(),
      );
      assert.ok(errors.every(({ response, error }) => response === null && error?.code === code));
    }
  });

  test('expires 24 hours after it was created', async () => {
    const world = new World(seeded(1), NO_FAULTS);
    ask(world, double('a', 1), Math.floor(Date.now() / 1000) - 86_401);
    await world.run();
    const { length } = linesOf(world, 'results');
    assert.equal(length + linesOf(world, 'errors').length, 1);
    const soon = new World(seeded(1), NO_FAULTS);
    ask(soon, double('a', 1), Math.floor(Date.now() / 1000) - 86_000);
    await soon.run();
    assert.ok(!soon.objects.has(`${RUN}/stop/expired.json`));
  });

  test('and no other job has an id that begins with batch_', async (t) => {
    quietLog(t);
    const world = new World(seeded(1), NO_FAULTS);
    world.put('data/in/a.ndjson', '1');
    world.request(ID, { input: 's3://data/in/', output: 's3://results/out/' });
    await world.run();
    assert.match(world.text(`${RUN}/stop/failed.json`), /the id of a batch, and of no other job/);
  });
});

test('batches whose functions are killed at any call, delivered twice and cut short: no request is missing, none is there twice, all are in order', async (t) => {
  quietLog(t);
  let kills = 0;
  for (let seed = 1; seed <= Number(process.env['JOB_SEEDS'] ?? 6); seed++) {
    const world = new World(seeded(seed), { kill: 0.04, twice: 0.15, late: 0.3 });
    const count = 5_000;
    const isBad = (i: number) => i % 7 === 3;
    ask(world, Array.from({ length: count }, (_, i) => double(`r${i}`, isBad(i) ? -2 : i)).join('\n'));
    await world.run();
    const ids = Array.from({ length: count }, (_, i) => i);
    const expected = (of: readonly number[]) => of.map((i) => `r${i}`);
    const found = (name: 'results' | 'errors') => linesOf(world, name).map(({ custom_id: id }) => id);
    assert.deepEqual(found('results'), expected(ids.filter((i) => !isBad(i))), `seed ${seed}`);
    assert.deepEqual(found('errors'), expected(ids.filter(isBad)), `seed ${seed}`);
    kills += world.kills;
  }
  assert.ok(kills > 50, `${kills} kills`);
});

test('the text of a member is that of the last of its name at the first level', () => {
  const json =
    '{"a":{"body":1},"body":[1],"x":"\\"body\\":2", "body" : {"n":12345678901234567890,"t":"}\\\\"} }';
  assert.equal(memberText(json, 'body'), '{"n":12345678901234567890,"t":"}\\\\"}');
  assert.equal(memberText('{"b\\u006fdy":{"x":1}}', 'body'), '{"x":1}');
  assert.equal(memberText('{}', 'body'), undefined);
});

test('a batch goes on where it was when any one call of S3 or the queue fails', async (t) => {
  quietLog(t);
  const runWith = async (failAt?: number) => {
    const world = new World(seeded(1), NO_FAULTS);
    world.failAt = failAt;
    ask(world, [double('a', 1), double('b', -2)].join('\n'));
    await world.run();
    return world;
  };
  const clean = await runWith();
  for (let failAt = 1; failAt <= clean.calls; failAt++) {
    const world = await runWith(failAt);
    for (const name of ['results', 'errors'] as const)
      assert.deepEqual(
        linesOf(world, name).map(({ custom_id: id }) => id),
        linesOf(clean, name).map(({ custom_id: id }) => id),
        `call ${failAt}`,
      );
    assert.deepEqual([...world.objects.keys()].sort(), [...clean.objects.keys()].sort(), `call ${failAt}`);
  }
});
