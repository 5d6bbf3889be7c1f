/** Parquet in jobs over files, and rows that are too large. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { inspect } from 'node:util';
import { gzipSync, zstdCompressSync } from 'node:zlib';
import { parquetWriteBuffer } from 'hyparquet-writer';
import type { Inputs, Outcome } from '../../../lib/contract/values.ts';
import { parquetRows } from '../../../lib/jobs/parquet.ts';
import type { RunMessage } from '../../../lib/jobs/store.ts';
import { quietLog } from '../../support/faults/quiet.ts';
import { seeded } from '../../support/faults/seeds.ts';
import { BUCKET, NO_FAULTS, World } from './world.ts';

const byText = (a: unknown, b: unknown) => inspect(a).localeCompare(inspect(b));

interface Line {
  readonly file: string;
  readonly row: number;
  readonly error?: string;
}

/** Notes the values of each record. */
function noting(seen: unknown[]): (record: Inputs) => Outcome {
  return (record) => {
    seen.push(
      Object.fromEntries(
        [...record].map(([name, value]) => [name, value.kind === 'json' ? value.value : value.kind]),
      ),
    );
    return { ok: true, outputs: [] };
  };
}

async function run(name: string, body: Uint8Array, seen: unknown[] = []): Promise<World> {
  const world = new World(seeded(1), NO_FAULTS, noting(seen));
  world.put(`data/in/${name}`, body);
  world.request('j1', { input: 's3://data/in/', output: 's3://results/out/' });
  await world.run();
  return world;
}

function linesOf(world: World): Line[] {
  return world
    .text('results/out/results.ndjson')
    .split('\n')
    .slice(0, -1)
    .map((line) => JSON.parse(line) as Line);
}

function failureOf(world: World): string {
  const { error } = JSON.parse(world.text(`${BUCKET}/jobs/digits/run/j1/stop/failed.json`)) as {
    error: string;
  };
  assert.ok(![...world.objects.keys()].some((key) => key.startsWith('results/')));
  return error;
}

const parquet = (...args: Parameters<typeof parquetWriteBuffer>) => Buffer.from(parquetWriteBuffer(...args));

describe('Parquet', () => {
  test('gives numbers, texts, truths and pictures, in groups of rows and with any compression', async () => {
    const png = Buffer.from('89504e470d0a1a0a00', 'hex');
    const columnData = [
      { name: 'f', data: [0.1, -2, 3e38], type: 'DOUBLE' as const },
      { name: 'i', data: [1n, 2n ** 60n, -3n], type: 'INT64' as const },
      { name: 's', data: ['a', 'ü', ''], type: 'STRING' as const },
      { name: 't', data: [true, false, true], type: 'BOOLEAN' as const },
      { name: 'p', data: [png, png, png], type: 'BYTE_ARRAY' as const },
    ];
    const expected = [
      { f: 0.1, i: 1, s: 'a', t: true, p: 'image' },
      { f: -2, i: 2n ** 60n, s: 'ü', t: false, p: 'image' },
      { f: 3e38, i: -3, s: '', t: true, p: 'image' },
    ];
    const compressors = { GZIP: gzipSync, ZSTD: zstdCompressSync };
    for (const codec of ['UNCOMPRESSED', 'SNAPPY', 'GZIP', 'ZSTD'] as const) {
      const seen: unknown[] = [];
      const world = await run(
        'a.parquet',
        parquet({ columnData, codec, compressors, rowGroupSize: 2 }),
        seen,
      );
      // The groups are messages, which come in any order.
      assert.deepEqual(seen.toSorted(byText), expected.toSorted(byText), codec);
      assert.deepEqual(
        linesOf(world).map(({ file, row }) => `${file} ${row}`),
        ['a.parquet 1', 'a.parquet 2', 'a.parquet 3'],
        codec,
      );
    }
  });

  test('that holds anything else is refused with the name of the column', async (t) => {
    quietLog(t);
    const refused = async (
      columnData: Parameters<typeof parquetWriteBuffer>[0]['columnData'],
      why: RegExp,
      schema?: Parameters<typeof parquetWriteBuffer>[0]['schema'],
    ) =>
      assert.match(
        failureOf(await run('a.parquet', parquet({ columnData, ...(schema && { schema }) }))),
        why,
      );
    await refused(
      [{ name: 'when', data: [new Date(0)], type: 'TIMESTAMP' }],
      /a\.parquet: column "when" is of type TIMESTAMP.*write it as a number or a text/,
    );
    await refused([{ name: 'j', data: [{ a: 1 }], type: 'JSON' }], /column "j" is of type JSON/);
    await refused([{ name: 'list', data: [[1, 2]] }], /column "list" is nested, which no input takes/, [
      { name: 'root', num_children: 1 },
      { name: 'list', repetition_type: 'OPTIONAL', num_children: 1, converted_type: 'LIST' },
      { name: 'list', repetition_type: 'REPEATED', num_children: 1 },
      { name: 'element', type: 'INT32', repetition_type: 'OPTIONAL' },
    ]);
  });

  test('that is cut off, or no Parquet, is refused as a whole', async (t) => {
    quietLog(t);
    const whole = parquet({ columnData: [{ name: 'x', data: [1, 2, 3], type: 'INT32' }] });
    for (const cut of [0, 4, whole.length >> 1, whole.length - 1])
      assert.match(
        failureOf(await run('a.parquet', whole.subarray(0, cut))),
        /^a\.parquet cannot be read as Parquet: /,
        `${cut}`,
      );
  });

  test('whose group of rows has more cells than fit into memory is refused, however few bytes they take', async (t) => {
    quietLog(t);
    const data = new Array<boolean>(9_000_000).fill(true);
    const body = parquet({ columnData: [{ name: 't', data, type: 'BOOLEAN' }], rowGroupSize: data.length });
    assert.ok(body.length < 2_000_000);
    assert.match(failureOf(await run('a.parquet', body)), /group 0 have 9000000 cells.*write smaller groups/);
  });

  test('that S3 breaks off is not refused: its message comes again', async () => {
    const body = parquet({ columnData: [{ name: 'x', data: [1, 2], type: 'INT32' }] });
    const file = { bucket: 'data', key: 'a.parquet', etag: '', bytes: body.length };
    const gone = new Error('read ECONNRESET');
    const store = { read: () => Promise.reject(gone) };
    const message: RunMessage = {
      do: 'run',
      id: 'j',
      unit: 0,
      row: 0,
      rows: 2,
      source: { kind: 'parquet', file, name: 'a' },
    };
    await assert.rejects(
      parquetRows(message, { file, name: 'a' }, store, 0).next(),
      (error) => error === gone,
    );
  });

  test('has an error in the place of a row without a value, or whose text is not UTF-8', async () => {
    const bytes = [Buffer.from('a'), Buffer.from([0xff, 0xfe, 0x00])];
    const world = await run(
      'a.parquet',
      parquet({
        columnData: [
          { name: 'x', data: [null, 1], type: 'INT32' },
          { name: 's', data: bytes, type: 'BYTE_ARRAY' },
        ],
      }),
    );
    assert.deepEqual(
      linesOf(world).map(({ error }) => error),
      ['column "x" has no value', 'column "s" is neither a picture nor text in UTF-8'],
    );
  });
});

test('a row of more than 32 MiB is an error in its place, and is not read', async () => {
  const large = `{"x":"${'a'.repeat(33 * 1024 * 1024)}"}`;
  const seen: unknown[] = [];
  const lines = linesOf(await run('a.ndjson', Buffer.from(`{"x":1}\n${large}\n{"x":2}\n`), seen));
  assert.deepEqual(seen, [{ x: 1 }, { x: 2 }]);
  assert.match(lines[1]?.error ?? '', /^the row is 34603017 bytes, over the limit of 33554432/);
  assert.deepEqual(
    lines.map(({ row }) => row),
    [1, 2, 3],
  );
});
