/** Results are saved and read back. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ServingError } from '../../../../lib/contract/errors.ts';
import { allocate, type NumericDType } from '../../../../lib/contract/tensor.ts';
import type { Outcome } from '../../../../lib/contract/values.ts';
import type { WorkerValue } from '../../../../lib/contract/worker-values.ts';
import type { Filter } from '../../../../lib/pipeline/answer/postprocess.ts';
import { serializeResult } from '../../../../lib/results/fields.ts';
import { failure, outcomeOf, sentAt, success, tensor } from './records.ts';
import type { At } from './world.ts';

const finished = (outcome: Outcome, filter?: Filter) => [
  { uri: 'a', fields: serializeResult(outcome, filter) },
];

export function describeSaving(at: At): void {
  test('a result is read back with its name, shape, model and time', async (t) => {
    const { results } = at(t).open({ now: () => 1_700_000_000_000 });
    const outputs = [{ name: 'y', ...tensor(1, 2) }];
    await results.save(finished({ ok: true, outputs }), 'v1');
    const result = await results.get('a');
    assert.deepEqual(result?.outputs, outputs);
    assert.deepEqual([result?.model, result?.finishedAt], ['v1', 1_700_000_000_000]);
  });

  test('the first result of a uri stays, whole', async (t) => {
    const { results } = at(t).open();
    assert.equal(await results.save([success('a', 1), success('a', 2)], 'v1'), 1);
    assert.equal(await results.save([failure('a'), success('b', 3)], 'v2'), 1);
    assert.deepEqual((await results.get('a'))?.outputs[0]?.data, Float32Array.of(1));
    assert.equal((await results.get('a'))?.model, 'v1');
    assert.equal((await results.get('b'))?.model, 'v2');
  });

  test('a failed record throws its own error, and an absent one is undefined', async (t) => {
    const { results } = at(t).open();
    const message = 'input "x": expected [2], got [3]';
    await results.save(finished({ ok: false, error: new ServingError('bad_input', message) }), 'v');
    await assert.rejects(results.get('a'), { code: 'bad_input', uri: 'a', message });
    assert.equal(await results.get('nobody'), undefined);
  });

  test('an outcome is that of its enqueue alone', async (t) => {
    const { results } = at(t).open();
    await results.save([success('a', 1, sentAt(1)), failure('b', 'bad_input', sentAt(2))], 'v');
    assert.equal((await results.get('a', { identity: 'm1' }))?.identity, 'm1');
    assert.equal(await results.get('a', { identity: 'm2' }), undefined);
    assert.equal(await results.get('b', { identity: 'm1' }), undefined);
    await assert.rejects(results.get('b', { identity: 'm2' }), { code: 'bad_input', uri: 'b' });
  });

  test('one job does not see the results of another', async (t) => {
    const place = at(t);
    const one = place.open().results;
    const two = place.openOther().results;
    await one.save([success('a', 1)], 'v');
    assert.equal(await two.get('a'), undefined);
    assert.equal(await two.takePage(10), undefined);
    assert.ok(await one.get('a'));
  });

  test('more than a thousand results are saved at once', async (t) => {
    const { results } = at(t).open();
    assert.equal(await results.save([], 'v'), 0);
    const many = Array.from({ length: 1_500 }, (_, i) => success(`r${i}`, i));
    assert.equal(await results.save(many, 'v'), 1_500);
    assert.equal(await outcomeOf(results, 'r1499'), 1_499);
  });

  for (const dtype of ['int64', 'float64', 'uint8', 'bool', 'float16'] as NumericDType[]) {
    test(`a ${dtype} output comes back exactly, though the old wire is float32`, async (t) => {
      const { results } = at(t).open();
      const data = allocate(dtype, 2);
      data[0] = (dtype === 'int64' ? 9_007_199_254_740_993n : dtype === 'float64' ? 0.1 : 1) as never;
      const outputs = [{ name: 'y', dtype, shape: [1, 2], data }];
      await results.save(finished({ ok: true, outputs }), 'v');
      assert.deepEqual((await results.get('a'))?.outputs, outputs);
    });
  }

  test('texts, the texts of filters, and what workers return come back as they left', async (t) => {
    const save = async (outcome: Outcome, filter?: Filter) => {
      const { results } = at(t).open();
      await results.save(finished(outcome, filter), 'v');
      return results.get('a');
    };
    const texts = [{ name: 'y', dtype: 'string' as const, shape: [2], data: ['héllo', 'a|b'] }];
    assert.deepEqual((await save({ ok: true, outputs: texts }))?.outputs, texts);
    const outputs = [{ name: 'y', ...tensor(3, 4, 5) }];
    const filtered = await save({ ok: true, outputs }, { kind: 'topN', n: 2 });
    assert.deepEqual(filtered?.filtered, [
      [2, 5],
      [1, 4],
    ]);
    const value: WorkerValue = { text: 'ü', list: [2n ** 60n, 0.5, null], bytes: Uint8Array.of(0, 255) };
    assert.deepEqual((await save({ ok: true, outputs: [], value }))?.value, value);
  });

  test('nothing of an earlier result stays beside a later one', async (t) => {
    const { results } = at(t).open();
    const outputs = [{ name: 'y', dtype: 'int64' as const, shape: [1], data: BigInt64Array.of(2n) }];
    const exact = serializeResult({ ok: true, outputs }, undefined);
    await results.save([{ uri: 'a', fields: exact, enqueue: sentAt(1) }], 'v1');
    await results.save([failure('a', 'bad_input', sentAt(2))], 'v2');
    await assert.rejects(results.get('a'), { code: 'bad_input' });
    await results.save([success('a', 3, sentAt(3))], 'v3');
    const { outputs: last, model } = (await results.get('a')) ?? assert.fail();
    assert.deepEqual([last, model], [[{ name: 'y', ...tensor(3) }], 'v3']);
  });

  test('a uri may hold a colon, a star, a slash or any script', async (t) => {
    const { results } = at(t).open();
    for (const uri of ['a:b', '*', '../x', '画像 1', 'a b', '{a}', 'a'.repeat(255)]) {
      await results.save([success(uri, uri.length)], 'v');
      assert.equal((await results.get(uri))?.outputs[0]?.data[0], uri.length);
      assert.equal((await results.take(uri))?.uri, uri);
    }
  });

  test('a uri that cannot have a result costs its own record, and its neighbours are saved', async (t) => {
    const place = at(t);
    const { results } = place.open();
    if (!(await place.block('b'))) return t.skip('each uri of this store can have a result');
    const blocked: string[] = [];
    const records = [success('a', 1), success('b', 2), success('c', 3)];
    const saved = await results.save(records, 'v', undefined, (uri, { code }) => blocked.push(uri, code));
    assert.equal(saved, 2);
    assert.deepEqual(blocked, ['b', 'results_unavailable']);
    await assert.rejects(results.save([success('d', 4), success('b', 2)], 'v'), {
      code: 'results_unavailable',
      uri: 'b',
    });
    assert.deepEqual([await outcomeOf(results, 'a'), await outcomeOf(results, 'c')], [1, 3]);
  });

  test('a connection may be opened before its first command, and ends with the results', async (t) => {
    const { connection, results, states } = at(t).open();
    await connection.open();
    await results.ping();
    assert.equal(await states.status('a'), 'unknown');
    await results.close();
    await assert.rejects(states.status('a'));
    await assert.rejects(results.ping());
    await connection.close();
  });
}
