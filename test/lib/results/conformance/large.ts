/** Results that are too large for a store: it has their pointers, and who fetched one takes it. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LIMITS } from '../../../../lib/contract/limits.ts';
import { idOfLarge, type Result } from '../../../../lib/contract/result.ts';
import type { Outcome } from '../../../../lib/contract/values.ts';
import type { WorkerValue } from '../../../../lib/contract/worker-values.ts';
import type { Filter } from '../../../../lib/pipeline/answer/postprocess.ts';
import { withContent } from '../../../../lib/results/fields.ts';
import { resultSink } from '../../../../lib/results/sink.ts';
import type { Results } from '../../../../lib/results/store.ts';
import { finished, memoryS3, numbers } from '../../../support/large-results.ts';
import { nextMs } from './records.ts';
import type { At } from './world.ts';

const LARGE = LIMITS.resultBytes / 4;
const take = (results: Results, uri: string, result: Result | undefined) =>
  results.take(uri, { fetched: result?.large && idOfLarge(result.large) });

export function describeLargeResults(at: At): void {
  test('a large result stays for all who ask, and one of those who fetched it takes it', async (t) => {
    const place = at(t);
    const [one, two] = [place.open().results, place.open().results];
    const { large, objects } = memoryS3();
    await resultSink(one, { large }).save([finished('a', numbers(LARGE)), finished('b', numbers(3))], 'v7');
    const [read, first, second] = [await one.get('a'), await one.take('a'), await two.take('a')];
    assert.deepEqual([read, first], [first, second]);
    assert.deepEqual(read?.outputs, []);
    assert.deepEqual([read?.model, read?.identity, read?.finishedAt], ['v7', 'e1', 5]);
    assert.ok(read?.large && objects.has(read.large.key));
    assert.equal(await take(two, 'b', read), undefined, 'a small result has no id');
    const taken = await Promise.all([take(one, 'a', read), take(two, 'a', read)]);
    assert.equal(taken.filter(Boolean).length, 1);
    assert.equal(await one.get('a'), undefined);
    assert.equal((await one.get('b'))?.outputs[0]?.data.length, 3);
  });

  test('a large result that cannot be used stays', async (t) => {
    const { results } = at(t).open();
    await resultSink(results, memoryS3()).save([finished('a', numbers(LARGE))], 'v');
    const use = () => {
      throw new Error('not used');
    };
    await assert.rejects(results.take('a', { use }), { message: 'not used' });
    const read = await results.get('a');
    assert.ok(read?.large);
    await assert.rejects(results.take('a', { fetched: idOfLarge(read.large), use }), { message: 'not used' });
    assert.deepEqual(await results.get('a'), read);
  });

  test('a page lists a large result once, and an interrupted one lists it again', async (t) => {
    const { results } = at(t).open();
    const { large } = memoryS3();
    for (const uri of ['a', 'b']) {
      await resultSink(results, { large }).save([finished(uri, numbers(LARGE))], 'v');
      await nextMs();
    }
    for await (const { uri } of results.drain()) {
      assert.equal(uri, 'a');
      break;
    }
    const page = await results.takePage(10, 1_000);
    assert.deepEqual(
      page?.map(({ uri }) => uri),
      ['b'],
    );
    assert.equal(await results.takePage(10), undefined);
    assert.ok((await results.get('a'))?.large && (await results.get('b'))?.large);
  });

  test('what was fetched does not take the result of a later enqueue', async (t) => {
    const { results } = at(t).open();
    const { large, objects } = memoryS3();
    const sink = resultSink(results, { large });
    await sink.save([finished('a', numbers(LARGE, 1), 1)], 'v');
    const before = await results.get('a');
    await sink.save([finished('a', numbers(LARGE, 1), 1)], 'v');
    assert.equal(objects.size, 2, 'a redelivery has objects of its own');
    assert.deepEqual(await results.get('a'), before, 'and changes nothing');
    await sink.save([finished('a', numbers(LARGE, 2), 2)], 'v');
    assert.equal(await take(results, 'a', before), undefined);
    const after = await results.get('a');
    assert.notEqual(after?.large?.key, before?.large?.key);
    assert.ok(await take(results, 'a', after));
  });

  test('each form comes back as it was: tensors, text, bytes and values', async (t) => {
    const { results } = at(t).open();
    const bytes = new Uint8Array(LIMITS.resultBytes).fill(7);
    const value: WorkerValue = { list: [Float32Array.of(1, Number.POSITIVE_INFINITY).length, 'x'], bytes };
    const valued = (given: WorkerValue): Outcome => ({ ok: true, outputs: [], value: given });
    const read = async (outcome: Outcome, filter?: Filter) => {
      const { large, objects } = memoryS3();
      await resultSink(results, { large, filter }).save([finished('a', outcome, ++sent)], 'v');
      const result = await results.get('a');
      assert.ok(result?.large);
      const object = objects.get(result.large.key) ?? assert.fail();
      return { form: result.large.form, whole: withContent(result, result.large.form, object.bytes), object };
    };
    let sent = 0;
    const outcome = numbers(LARGE, Number.NEGATIVE_INFINITY);
    const tensors = await read(outcome);
    assert.equal(tensors.form, 'tensors');
    assert.deepEqual(tensors.whole.outputs, outcome.ok && outcome.outputs);
    assert.equal(tensors.whole.large, undefined);
    const text = await read(numbers(LARGE), { kind: 'pickTopN', n: LARGE });
    assert.deepEqual([text.form, (text.whole.filtered as number[][])[0]?.length], ['text', LARGE]);
    const raw = await read(valued(bytes));
    assert.deepEqual([raw.form, raw.whole.value], ['bytes', bytes]);
    const mixed = await read(valued(value));
    assert.deepEqual([mixed.form, mixed.whole.value], ['value', value]);
    assert.equal((JSON.parse(mixed.object.json) as { value: { list: unknown[] } }).value.list[1], 'x');
  });
}
