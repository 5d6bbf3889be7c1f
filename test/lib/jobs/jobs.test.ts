/** Jobs over files in a world in memory: where each row ends, through kills and second deliveries. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { quietLog } from '../../support/faults/quiet.ts';
import { seeded } from '../../support/faults/seeds.ts';
import { BUCKET, NO_FAULTS, World } from './world.ts';

const OUT = 's3://results/out/';

interface Line {
  readonly file: string;
  readonly row: number;
  readonly outputs?: Readonly<Record<string, readonly (readonly number[])[]>>;
  readonly error?: string;
  readonly code?: string;
}

function linesOf(world: World): Line[] {
  const text = world.text('results/out/results.ndjson');
  assert.ok(text === '' || text.endsWith('\n'));
  return text
    .split('\n')
    .slice(0, -1)
    .map((line) => JSON.parse(line) as Line);
}

const summaryOf = (world: World) =>
  JSON.parse(world.text('results/out/summary.json')) as Record<string, unknown>;
const failureOf = (world: World, id: string) =>
  (JSON.parse(world.text(`${BUCKET}/jobs/digits/run/${id}/stop/failed.json`)) as { error: string }).error;

async function runJob(
  files: Readonly<Record<string, string | Uint8Array>>,
  request: object = {},
): Promise<World> {
  const world = new World(seeded(1), NO_FAULTS);
  for (const [name, body] of Object.entries(files)) world.put(`data/in/${name}`, body);
  world.request('j1', { input: 's3://data/in/', output: OUT, ...request });
  await world.run();
  return world;
}

describe('a job over files', () => {
  test('answers each row in its place, with its file and its number', async () => {
    const world = await runJob({ 'a.csv': 'x\n1\n2\n', 'b.ndjson': '{"x":3}\n\n{"x":-1}\n4\n' });
    assert.deepEqual(linesOf(world), [
      { file: 'a.csv', row: 1, outputs: { y: [[2]] }, model: 'v1' },
      { file: 'a.csv', row: 2, outputs: { y: [[4]] }, model: 'v1' },
      { file: 'b.ndjson', row: 1, outputs: { y: [[6]] }, model: 'v1' },
      { file: 'b.ndjson', row: 2, error: 'x is -1', code: 'bad_request' },
      { file: 'b.ndjson', row: 3, outputs: { y: [[8]] }, model: 'v1' },
    ]);
    const { rows, errors, total, files, results } = summaryOf(world);
    assert.deepEqual(
      { rows, errors, total, files, results },
      { rows: 5, errors: 1, total: 5, files: 2, results: `${OUT}results.ndjson` },
    );
  });

  test('has an error in the place of each row that cannot be read', async () => {
    const bad = Buffer.concat([
      Buffer.from('{"x":1}\n{"x":'),
      Buffer.from([0xff]),
      Buffer.from('}\nno\n{"x":1}],"instances":[2\n"ä"'),
    ]);
    const lines = linesOf(
      await runJob({ 'a.ndjson': bad, 'b.csv': '\ufeffx,z\r\n1\r\n"a"b,2\r\n"1\n2","3' }),
    );
    assert.deepEqual(
      lines.map(({ file, row, error }) => [file, row, error?.replace(/: (Unexpected|No number).*/s, '')]),
      [
        ['a.ndjson', 1, undefined],
        ['a.ndjson', 2, 'the row is not valid UTF-8'],
        ['a.ndjson', 3, 'the line is not JSON'],
        ['a.ndjson', 4, 'the line is not JSON'],
        ['a.ndjson', 5, 'x is NaN'],
        ['b.csv', 1, '1 cells, expected 2 as in the first line'],
        [
          'b.csv',
          2,
          'the CSV cannot be read: a closing quote is followed by neither a comma nor the end of the line',
        ],
        ['b.csv', 3, 'the CSV cannot be read: the quote that opens a cell is not closed'],
      ],
    );
  });

  test('without a row is done, and its results are empty', async () => {
    const world = await runJob({ 'a.csv': 'x\n', 'b.ndjson': '', 'c.csv': '', 'd.ndjson': '\n \r\n' });
    assert.deepEqual(linesOf(world), []);
    assert.equal(summaryOf(world)['rows'], 0);
  });

  test('refuses what it cannot do with one error, and writes no results', async () => {
    const cases: readonly (readonly [Readonly<Record<string, string>>, object, RegExp])[] = [
      [{}, {}, /there is no file at s3:\/\/data\/in\//],
      [{ 'notes.txt': 'x' }, {}, /in\/notes\.txt is no \.ndjson/],
      [{ 'a.csv': 'x\n1' }, { format: 'xml' }, /format: expected ndjson, csv, parquet, picture, got "xml"/],
      [{ 'a.csv': 'x\n1' }, { output: 'out' }, /output: expected s3:\/\/<bucket>\/<prefix>, got "out"/],
      [{ 'a.csv': 'x\n1' }, { maxErrors: 'few' }, /maxErrors: expected a number of rows/],
      [{ 'a.csv': 'x\n1' }, { output: 's3://data/in/' }, /s3:\/\/data\/in\/ is not empty/],
      [{ 'a.csv': 'x;y\n1;2' }, {}, /a\.csv: line 1: separated by semicolons/],
      [{ 'a.csv': 'x,x\n1,2' }, {}, /a\.csv: line 1: the column "x" stands twice/],
      [{ 'a.csv': 'x\0,\0' }, {}, /a\.csv is not CSV in UTF-8/],
      [
        { 'a.csv': `${'c,'.repeat(200_000)}\n1` },
        {},
        /the first line, with the names of the columns, has more than/,
      ],
      [{ 'a.parquet': 'PAR2' }, {}, /a\.parquet cannot be read as Parquet/],
    ];
    for (const [files, request, message] of cases) {
      const world = await runJob(files, request);
      assert.match(failureOf(world, 'j1'), message);
      assert.ok(![...world.objects.keys()].some((key) => key.startsWith('results/')), String(message));
    }
  });

  test('ignores hidden files, and those that others write beside theirs', async () => {
    const world = await runJob({ 'a.csv': 'x\n1', _SUCCESS: '', '.part.crc': 'x', 'sub/_x/b.csv': 'x\n1' });
    assert.deepEqual(
      linesOf(world).map(({ file }) => file),
      ['a.csv'],
    );
  });

  test('of one file takes that file only', async () => {
    const world = await runJob({ 'a.csv': 'x\n1', 'a.csv.csv': 'x\n2' }, { input: 's3://data/in/a.csv' });
    assert.deepEqual(
      linesOf(world).map(({ file, row }) => [file, row]),
      [['a.csv', 1]],
    );
  });

  test('ends at more errors than it may have, and not at as many', async () => {
    const files = { 'a.ndjson': `${'{"x":1}\n'.repeat(98)}{"x":-1}\n{"x":-1}\n` };
    assert.match(
      failureOf(await runJob(files, { maxErrors: '1%' }), 'j1'),
      /^2 of 100 rows are errors, more than 1%/,
    );
    assert.match(failureOf(await runJob(files, { maxErrors: 1 }), 'j1'), /more than 1$/);
    assert.equal(linesOf(await runJob(files, { maxErrors: '2%' })).length, 100);
    assert.equal(linesOf(await runJob(files, { maxErrors: 2 })).length, 100);
  });

  test('whose errors may be a share of all rows waits until all are counted', async () => {
    for (let seed = 1; seed <= 12; seed++) {
      const world = new World(seeded(seed), NO_FAULTS);
      world.put('data/in/a.ndjson', '{"x":-1}\n'.repeat(2));
      for (let i = 0; i < 5; i++) world.put(`data/in/b${i}.ndjson`, '{"x":1}\n'.repeat(100));
      world.request('j1', { input: 's3://data/in/', output: OUT, maxErrors: '1%' });
      await world.run();
      assert.equal(linesOf(world).length, 502, `seed ${seed}`);
    }
  });

  test('that is cancelled writes no results, and does all once it is asked to go on', async (t) => {
    quietLog(t);
    const world = new World(seeded(5), NO_FAULTS);
    world.put('data/in/a.ndjson', '{"x":1}\n'.repeat(30_000));
    const request = { input: 's3://data/in/', output: OUT };
    world.request('j1', request);
    const stop = `${BUCKET}/jobs/digits/run/j1/stop/cancelled.json`;
    await world.run((deliveries) => {
      if (deliveries === 3) world.put(stop, '{}');
    });
    assert.ok(!world.objects.has('results/out/results.ndjson'));
    world.objects.delete(stop);
    world.request('j1', { ...request, resumed: 1 });
    await world.run();
    assert.equal(linesOf(world).length, 30_000);
  });

  test('fails when a file is changed while it runs', async (t) => {
    quietLog(t);
    const world = new World(seeded(2), NO_FAULTS);
    world.put('data/in/a.ndjson', '{"x":1}\n'.repeat(25_000));
    world.request('j1', { input: 's3://data/in/', output: OUT });
    await world.run((deliveries) => {
      if (deliveries === 2) world.put('data/in/a.ndjson', '{"x":2}\n'.repeat(25_000));
    });
    assert.match(failureOf(world, 'j1'), /in\/a\.ndjson was changed/);
    assert.ok(!world.objects.has('results/out/results.ndjson'));
  });

  test('counts and answers the first rows when it is dry, and writes nothing where results would be', async () => {
    const world = await runJob(
      { 'a.csv': `x\n${'7\n'.repeat(25_000)}`, 'b.ndjson': '1\n2' },
      { dryRun: true },
    );
    const summary = JSON.parse(world.text(`${BUCKET}/jobs/digits/run/j1/summary.json`)) as {
      total: number;
      first: Line[];
    };
    assert.deepEqual([summary.total, summary.first.length, summary.first[99]?.row], [25_002, 100, 100]);
    assert.ok(![...world.objects.keys()].some((key) => key.startsWith('results/')));
    assert.equal(world.ran, 100);
  });

  test('that is done answers nothing again, whatever message comes late', async () => {
    const world = new World(seeded(1), NO_FAULTS);
    world.put('data/in/a.ndjson', '{"x":1}\n'.repeat(25_000));
    world.request('j1', { input: 's3://data/in/', output: OUT });
    const seen = new Set<string>();
    await world.run(() => world.queue.forEach(({ body }) => seen.add(body)));
    const [ran, objects] = [world.ran, [...world.objects.keys()]];
    for (const body of seen) world.queue.push({ body, attempts: 1 });
    await world.run();
    assert.equal(world.ran, ran);
    assert.deepEqual([...world.objects.keys()], objects);
  });

  test('begins with a file that is dropped, once however often its event comes', async () => {
    const world = new World(seeded(1), NO_FAULTS);
    for (let i = 0; i < 3; i++) world.drop('night run.csv', 'x\n1\n2\n');
    await world.run();
    const results = [...world.objects.keys()].filter((key) => key.endsWith('results.ndjson'));
    assert.equal(results.length, 1);
    assert.match(results[0] ?? '', /^own\/jobs\/digits\/out\/night-run-csv-[0-9a-f]{12}\/results\.ndjson$/);
    assert.equal(world.ran, 2);
  });
});

test('jobs whose functions are killed at any call, delivered twice and cut short: no row is missing, none is there twice, all are in order', async (t) => {
  quietLog(t);
  let kills = 0;
  for (let seed = 1; seed <= Number(process.env['JOB_SEEDS'] ?? 6); seed++) {
    const world = new World(seeded(seed), { kill: 0.04, twice: 0.15, late: 0.3 });
    const counts = [0, 1, 700, 12_345, 3];
    const expected: string[] = [];
    for (const [i, rows] of counts.entries()) {
      const name = `f${i}.${i % 2 ? 'csv' : 'ndjson'}`;
      const values = Array.from({ length: rows }, (_, row) => (row % 97 === 5 ? -1 : row + i));
      const text = values.map((x) => (i % 2 ? `"${x}",${row(x)}` : `{"x":${x}}`)).join('\n');
      world.put(`data/in/${name}`, i % 2 ? `x,z\n${text}` : text);
      for (const [at, x] of values.entries()) expected.push(`${name} ${at + 1} ${x < 0 ? 'x is -1' : 2 * x}`);
    }
    world.request('j1', { input: 's3://data/in/', output: OUT });
    await world.run();
    const found = linesOf(world).map(
      ({ file, row: at, outputs, error }) => `${file} ${at} ${error ?? outputs?.['y']?.[0]?.[0]}`,
    );
    assert.deepEqual(found, expected, `seed ${seed}`);
    assert.equal(summaryOf(world)['rows'], expected.length);
    kills += world.kills;
  }
  assert.ok(kills > 100, `${kills} kills`);
});

/** A cell with a line break. */
const row = (x: number) => `"${x}\n"`;

test('results of several pieces are whole and in order, through kills and second deliveries', async (t) => {
  quietLog(t);
  const text = 'a'.repeat(100_000);
  for (let seed = 1; seed <= 4; seed++) {
    const world = new World(seeded(seed), { kill: 0.05, twice: 0.3, late: 0.3 }, (record) => {
      const [value] = record.values();
      const data = [`${value?.kind === 'json' ? String(value.value) : ''} ${text}`];
      return { ok: true, outputs: [{ name: 'y', dtype: 'string', shape: [1], data }] };
    });
    world.put('data/in/a.ndjson', Array.from({ length: 300 }, (_, i) => i).join('\n'));
    world.request('j1', { input: 's3://data/in/', output: OUT });
    await world.run();
    const lines = world.text('results/out/results.ndjson').split('\n').slice(0, -1);
    const found = lines.map((line) => (JSON.parse(line) as { outputs: { y: string[][] } }).outputs.y[0]?.[0]);
    assert.deepEqual(
      found.map((y) => y?.split(' ')[0]),
      Array.from({ length: 300 }, (_, i) => String(i)),
      `seed ${seed}`,
    );
    assert.ok(found.every((y) => y?.endsWith(text)));
  }
});

test('pictures have a row each, in the order of their names, whether a group is answered at once or in parts', async (t) => {
  quietLog(t);
  const name = (i: number) => `p${String(i).padStart(3, '0')}.png`;
  for (const faults of [NO_FAULTS, { kill: 0, twice: 0.2, late: 0.7 }]) {
    const world = new World(seeded(2), faults, (record) => {
      const [value] = record.values();
      const data = new Float64Array([value?.kind === 'image' ? (value.bytes[0] ?? -1) : -2]);
      return { ok: true, outputs: [{ name: 'y', dtype: 'float64', shape: [1], data }] };
    });
    // Two groups.
    for (let i = 0; i < 130; i++) world.put(`data/in/${name(i)}`, Uint8Array.of(...(i === 7 ? [] : [i])));
    world.request('j1', { input: 's3://data/in/', output: OUT });
    await world.run();
    assert.deepEqual(
      linesOf(world).map(({ file, outputs, error }) => [file, error ?? outputs?.['y']?.[0]?.[0]]),
      Array.from({ length: 130 }, (_, i) => [name(i), i === 7 ? 'the file is empty' : i]),
    );
    assert.equal(summaryOf(world)['rows'], 130);
  }
});

test('a job goes on where it was when any one call of S3 or the queue fails', async (t) => {
  quietLog(t);
  const run = async (failAt?: number) => {
    const world = new World(seeded(1), NO_FAULTS);
    world.failAt = failAt;
    world.put('data/in/a.csv', 'x\n1\n-1\n');
    world.request('j1', { input: 's3://data/in/', output: OUT });
    await world.run();
    return world;
  };
  const clean = await run();
  for (let failAt = 1; failAt <= clean.calls; failAt++) {
    const world = await run(failAt);
    assert.deepEqual(linesOf(world), linesOf(clean), `call ${failAt}`);
    const { rows, errors, files } = summaryOf(world);
    assert.deepEqual([rows, errors, files], [2, 1, 1], `call ${failAt}`);
    assert.deepEqual([...world.objects.keys()].sort(), [...clean.objects.keys()].sort(), `call ${failAt}`);
  }
});
