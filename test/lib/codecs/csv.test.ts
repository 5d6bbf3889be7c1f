/** A table as CSV, at POST /predict and on its own: rows are records, and every error has its line. */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import type { APIGatewayProxyEventV2 } from 'aws-lambda';
import { decodeCsv, readCsv } from '../../../lib/codecs/csv.ts';
import { openOnnx } from '../../../lib/compose/onnx.ts';
import fc from '../../support/fast-check.ts';
import { handlerOf } from '../../support/inference-endpoint.ts';
import { identityModel, type ValueSpec } from '../../support/onnx.ts';
import { temporaryFolder } from '../../support/runner.ts';

test('cells keep quotes, separators and lines of their own; a byte order mark and empty lines are skipped', () => {
  const { columns, rows } = readCsv(
    '\ufeffname, age ,note\r\n"a ""b"", c",3,"two\nlines"\r\n\r\n" x ",,\r\n',
  );
  assert.deepEqual(columns, ['name', 'age', 'note']);
  assert.deepEqual(rows, [
    { line: 3, cells: ['a "b", c', '3', 'two\nlines'] },
    { line: 5, cells: [' x ', '', ''] },
  ]);
  assert.deepEqual(
    readCsv(Buffer.from('age\n1\n\n2\n')).rows.map(({ cells }) => cells[0]),
    ['1', '', '2'],
  );
});

const REFUSED: readonly (readonly [body: string, message: RegExp])[] = [
  ['', /the CSV is empty; expected a line with the names of the columns/],
  ['a,b\n', /the CSV has no rows/],
  ['a,b\n1,2\n\n3\n', /^line 4: 1 cells, expected 2 as in the first line/],
  ['a,b\n1,2,3\n', /^line 2: at least 3 cells, expected 2/],
  ['a,a\n1,2\n', /^line 1: the column "a" stands twice/],
  [',a\n0,1\n', /^line 1: column 1 has no name \(pandas: to_csv\(index=False\)\)/],
  ['a,b\n1,"2\n', /the CSV cannot be read: .*line/],
  ['a,b\n1,x"y"\n', /the CSV cannot be read: .*line/],
];
for (const [body, message] of REFUSED) {
  test(`${JSON.stringify(body)} is refused`, () => {
    assert.throws(() => readCsv(body), { code: 'bad_request', message });
  });
}

test('bytes that are not UTF-8 are refused, and no cell gets another text', () => {
  assert.throws(() => readCsv(Buffer.from('name\nJos\xe9\n', 'latin1')), {
    code: 'bad_request',
    message: /^the CSV cannot be read: line 2 is not valid UTF-8; save it as UTF-8 \(in Excel "CSV UTF-8"\)$/,
  });
});

test('too many rows and columns are refused with the limit', () => {
  const rows = `a\n${'1\n'.repeat(1_001)}`;
  assert.throws(() => decodeCsv(rows), {
    code: 'too_large',
    message: /at least 1001 rows are over the limit of 1000/,
  });
  assert.equal(decodeCsv(rows.slice(0, -2)).records.length, 1_000);
  const wide = Array.from({ length: 4_097 }, (_, i) => `c${i}`).join();
  assert.throws(() => readCsv(wide), {
    code: 'too_large',
    message: /at least 4097 columns are over the limit of 4096/,
  });
});

async function asked(t: TestContext, values: readonly ValueSpec[], names: object | undefined, body: string) {
  const folder = await temporaryFolder(t);
  await writeFile(join(folder, 'model.onnx'), identityModel(values));
  if (names) await writeFile(join(folder, 'names.json'), JSON.stringify(names));
  const settings = { threads: 1, batchSize: 8, inputAlreadyBatched: false, image: {} };
  const runner = await openOnnx(join(folder, 'model.onnx'), 'v', settings);
  t.after(() => runner.close());
  const event = {
    rawPath: '/predict',
    headers: { 'content-type': 'text/csv; charset=utf-8' },
    requestContext: { http: { method: 'POST' } },
    body,
    isBase64Encoded: false,
  } as unknown as APIGatewayProxyEventV2;
  const { statusCode, body: answer } = await handlerOf(runner)(event);
  return { statusCode, answer: JSON.parse(answer as string) as { predictions?: string[]; error?: string } };
}

const COLUMNS: readonly ValueSpec[] = [
  { name: 'age', dtype: 'float32', shape: ['N', 1] },
  { name: 'sex', dtype: 'string', shape: ['N', 1] },
  { name: 'count', dtype: 'int64', shape: ['N'] },
];

test('POST /predict takes a table for inputs of one column each', async (t) => {
  const { statusCode, answer } = await asked(t, COLUMNS, undefined, 'sex,count,age\nmale,3,1.5\n"a|b",-1,\n');
  assert.equal(statusCode, 200);
  assert.deepEqual(answer.predictions, [
    '{value=[{"data":[1.5],"shape":[1]},{"data":["male"],"shape":[1]},{"data":[3],"shape":[]}]}',
    '{value=[{"data":[null],"shape":[1]},{"data":["a|b"],"shape":[1]},{"data":[-1],"shape":[]}]}',
  ]);
});

test('POST /predict takes a table for one input whose columns have names, and says the line of an error', async (t) => {
  const table: readonly ValueSpec[] = [{ name: 'X', dtype: 'float32', shape: ['N', 2] }];
  const names = { columns: { X: ['age', 'fare'] } };
  const { answer } = await asked(t, table, names, 'fare,age\n1,2\n3,4\n');
  assert.deepEqual(answer.predictions, [
    '{value={"data":[2.0,1.0],"shape":[2]}}',
    '{value={"data":[4.0,3.0],"shape":[2]}}',
  ]);
  const wrong = await asked(t, table, names, 'fare,age\n1,2\n\n3,old\n');
  assert.equal(wrong.statusCode, 400);
  assert.match(wrong.answer.error ?? '', /^line 4: column "age": expected a number \(float32\), got "old"/);
  const missing = await asked(t, table, names, 'fare\n1\n');
  assert.match(
    missing.answer.error ?? '',
    /^line 2: missing column "age"; the model's 2 columns are "age", "fare"/,
  );
});

test('names that do not fit the model are refused when it is opened', async (t) => {
  const table: readonly ValueSpec[] = [{ name: 'X', dtype: 'float32', shape: ['N', 2] }];
  const refused: readonly (readonly [object, RegExp])[] = [
    [{ columns: { X: ['a'] } }, /names\.json: 1 columns, and input "X" has 2/],
    [{ labels: { Y: ['a'] } }, /names\.json: 1 labels, and the model has no output "Y"/],
    [{ columns: { X: [1, 2] } }, /names\.json: expected \{"columns"/],
  ];
  for (const [names, message] of refused) {
    await assert.rejects(asked(t, table, names, 'a\n1\n'), { code: 'model_unavailable', message });
  }
});

test('lines end as on Unix, Windows and old Macs, and within quotes they are counted once', () => {
  for (const end of ['\n', '\r\n', '\r']) {
    const { rows } = readCsv(['a,b', `"x${end}y",1`, '', '2,"""q"""', '3,'].join(end));
    assert.deepEqual(rows, [
      { line: 3, cells: [`x${end}y`, '1'] },
      { line: 5, cells: ['2', '"q"'] },
      { line: 6, cells: ['3', ''] },
    ]);
  }
});

test('a table of more cells than a request has is refused, and a file for the command is not', () => {
  const columns = Array.from({ length: 1_000 }, (_, i) => `c${i}`).join();
  const table = `${columns}\n${`${','.repeat(999)}\n`.repeat(263)}`;
  const message = /^at least 263 rows of 1000 cells are over the limit of 262144 cells \(csvCells\)$/;
  assert.throws(() => decodeCsv(table), { code: 'too_large', message });
  assert.equal(readCsv(table).rows.length, 263);
  assert.equal(decodeCsv(table.slice(0, -1_000)).records.length, 262);
});

const cell = fc.string({ unit: fc.constantFrom('a', '1', ',', '"', '\n', '\r', ' ', 'é', '😀') });
test('what is written as CSV is read unchanged, with any characters in its cells', () => {
  const tables = fc.integer({ min: 2, max: 4 }).chain((width) => {
    return fc.array(fc.array(cell, { minLength: width, maxLength: width }), { minLength: 1, maxLength: 5 });
  });
  fc.assert(
    fc.property(tables, fc.constantFrom('\n', '\r\n', '\r'), fc.boolean(), (rows, end, isPlain) => {
      const quoted = (text: string) =>
        isPlain && !/[",\r\n]|^ | $/.test(text) ? text : `"${text.replaceAll('"', '""')}"`;
      const head = (rows[0] as string[]).map((_, i) => `c${i}`);
      const text = [head, ...rows].map((row) => row.map(quoted).join()).join(end);
      assert.deepEqual(
        readCsv(text).rows.map(({ cells }) => cells),
        rows,
      );
    }),
  );
});

test('a table whose columns are separated by semicolons or tabs is refused with what to save', () => {
  for (const [text, by] of [
    ['a;b\n1;2\n', 'semicolons'],
    ['\ufeff"a";"b,c"\r\n1,5;2,5\r\n', 'semicolons'],
    ['sep=;\r\na;b\r\n1;2', 'semicolons'],
    ['a\tb\n1\t2\n', 'tabs'],
  ] as const) {
    assert.throws(() => readCsv(text), {
      code: 'bad_request',
      message: `line 1: separated by ${by}: save as CSV UTF-8 (comma)`,
    });
  }
  assert.deepEqual(readCsv('"a;b"\n1\n').columns, ['a;b']);
  assert.deepEqual(readCsv('a;b,c\n1,2\n').columns, ['a;b', 'c']);
  assert.deepEqual(readCsv('a\t\n1;2\n').columns, ['a']);
});

test('UTF-16, as Excel saves Unicode text, is named', () => {
  for (const bytes of [
    Buffer.from('\ufeffa,b\n1,2', 'utf16le'),
    Buffer.from('\ufeffa,b\n1,2', 'utf16le').swap16(),
  ]) {
    assert.throws(() => readCsv(bytes), {
      code: 'bad_request',
      message: /is UTF-16; save it as UTF-8 \(in Excel "CSV UTF-8"\)/,
    });
  }
});
