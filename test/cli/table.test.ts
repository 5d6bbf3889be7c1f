/** Tables as CSV files: predict prints one line a row, enqueue makes each row a record. */
import assert from 'node:assert/strict';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { identityModel } from '../support/onnx.ts';
import { until } from '../support/until.ts';
import { type CliAnswer, cleaningUp, serviceFolder } from './cli.ts';
import { warmCli, warmCliJson } from './warm.ts';

interface Results {
  readonly results: readonly {
    readonly uri: string;
    readonly status: string;
    readonly error?: string;
    readonly outputs?: readonly { readonly data: readonly unknown[] }[];
  }[];
}

describe('with a service of a model of columns', () => {
  let cwd: string;
  const cleanups: (() => Promise<void>)[] = [];

  before(
    cleaningUp(cleanups, async () => {
      cwd = await serviceFolder({ after: (cleanup) => cleanups.push(cleanup) });
      await mkdir(join(cwd, 'model'));
      const model = identityModel([
        { name: 'age', dtype: 'float32', shape: ['N', 1] },
        { name: 'sex', dtype: 'string', shape: ['N', 1] },
      ]);
      await writeFile(join(cwd, 'model/model.onnx'), model);
      await writeFile(join(cwd, 'config.yaml'), 'modelPath: model\n');
      const started = await warmCliJson(['start', '--port', '0'], { cwd });
      assert.equal(started.code, 0, started.stderr);
    }),
  );

  after(async () => {
    for (const cleanup of cleanups) await cleanup();
  });

  test('predict --file answers every row in order, more than one request takes', async () => {
    const rows = Array.from({ length: 1_205 }, (_, i) => `"two\nlines",${i}`);
    await writeFile(join(cwd, 'many.csv'), ['sex,age', ...rows, ''].join('\n'));
    const { json } = (await warmCliJson(['predict', '--file', 'many.csv'], { cwd })) as CliAnswer<{
      predictions: string[];
    }>;
    assert.equal(json.predictions.length, 1_205);
    for (const [i, text] of json.predictions.entries()) {
      assert.equal(text, `{value=[{"data":[${i}.0],"shape":[1]},{"data":["two\\nlines"],"shape":[1]}]}`);
    }
    const few = 'sex,age\nm,1\n\nf,\n';
    await writeFile(join(cwd, 'few.csv'), few);
    const { stdout } = await warmCli(['predict', '--file', 'few.csv'], { cwd });
    assert.equal(
      stdout,
      [
        'few.csv:2  {value=[{"data":[1.0],"shape":[1]},{"data":["m"],"shape":[1]}]}',
        'few.csv:4  {value=[{"data":[null],"shape":[1]},{"data":["f"],"shape":[1]}]}',
        '',
      ].join('\n'),
    );
  });

  test('an error of a row, of the columns and of the file has its line', async () => {
    const filler = Array.from({ length: 1_100 }, () => '"a\nb",1');
    await writeFile(join(cwd, 'wrong.csv'), ['sex,age', ...filler, 'm,old', ''].join('\n'));
    const wrong = await warmCli(['predict', '--file', 'wrong.csv'], { cwd });
    assert.match(
      wrong.stderr,
      /wrong\.csv: line 2202: input "age": expected a number \(float32\), got "old"/,
    );
    await writeFile(join(cwd, 'ragged.csv'), 'sex,age\nm,1\nf\n');
    for (const command of ['predict', 'enqueue']) {
      const ragged = await warmCli([command, '--file', 'ragged.csv'], { cwd });
      assert.match(ragged.stderr, /ragged\.csv: line 3: 1 cells, expected 2/);
      assert.equal(ragged.code, 1);
    }
    await writeFile(join(cwd, 'other.csv'), 'sex,port\nm,1\n');
    const other = await warmCli(['predict', '--file', 'other.csv'], { cwd });
    assert.match(other.stderr, /other\.csv: line 2: missing input "age", unknown input "port"/);
  });

  test('enqueue --file makes each row a record, with the uri of a column or its number', async () => {
    await writeFile(join(cwd, 'data.csv'), 'id,sex,age\nfirst,m|n,1.5\nsecond,f,\nthird,,x\n');
    const named = await warmCli(['enqueue', '--file', 'data.csv', '--uri-column', 'id'], { cwd });
    assert.equal(named.code, 0, named.stderr);
    const query = async (uris: readonly string[]) => {
      let found: Results['results'] = [];
      await until(async () => {
        ({ results: found } = ((await warmCliJson(['query', ...uris], { cwd })) as CliAnswer<Results>).json);
        return found.length === uris.length && found.every(({ status }) => /succeeded|failed/.test(status));
      });
      return found.map(({ outputs, error }) => error ?? outputs?.map(({ data }) => data[0]));
    };
    const [first, second, third] = await query(['first', 'second', 'third']);
    assert.deepEqual(
      [first, second],
      [
        [1.5, 'm|n'],
        [null, 'f'],
      ],
    );
    assert.match(String(third), /input "age": expected a number \(float32\), got "x"/);
    await writeFile(join(cwd, 'plain.csv'), 'sex,age\nm,7\nf,8\n');
    assert.equal((await warmCli(['enqueue', '--file', 'plain.csv'], { cwd })).code, 0);
    assert.deepEqual(await query(['plain-1', 'plain-2']), [
      [7, 'm'],
      [8, 'f'],
    ]);
  });

  test('uris that stand twice, or in no column, are refused before anything is sent', async () => {
    await writeFile(join(cwd, 'twice.csv'), 'uri,sex,age\nu,m,1\nv,m,1\nu,f,2\n');
    const twice = await warmCli(['enqueue', '--file', 'twice.csv'], { cwd });
    assert.match(twice.stderr, /twice\.csv: line 4: the uri u stands twice/);
    const none = await warmCli(['enqueue', '--file', 'twice.csv', '--uri-column', 'id'], { cwd });
    assert.match(none.stderr, /twice\.csv has no column "id"; its columns: uri, sex, age/);
    const without = await warmCli(['enqueue', '--dir', '.', '--uri-column', 'id'], { cwd });
    assert.match(without.stderr, /--uri-column goes with --file and a CSV file/);
  });
});
