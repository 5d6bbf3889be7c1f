/** Results are taken: each once, by one of those who ask. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ServingError } from '../../../../lib/contract/errors.ts';
import type { Finished } from '../../../../lib/results/store.ts';
import { drained, failure, nameOf, nextMs, outcomeOf, sentAt, success } from './records.ts';
import type { At } from './world.ts';

/** More than one page of a drain. */
const MANY = Array.from({ length: 250 }, (_, i) => success(`r${i}`, i, sentAt(i)));
const named = (finished: readonly Finished[]) => finished.map(({ uri }, i) => `${uri} ${i}`).sort();

export function describeTaking(at: At): void {
  test('take gives the result once', async (t) => {
    const { results } = at(t).open();
    await results.save([success('a', 1)], 'v');
    assert.ok(await results.take('a'));
    assert.equal(await results.take('a'), undefined);
    assert.equal(await results.get('a'), undefined);
    assert.equal(await results.takePage(10), undefined);
  });

  test('take gives a failure once', async (t) => {
    const { results } = at(t).open();
    await results.save([failure('a', 'model_failed', sentAt(1))], 'v');
    await assert.rejects(results.take('a', { use: () => assert.fail() }), { code: 'model_failed', uri: 'a' });
    assert.equal(await results.take('a'), undefined);
    assert.equal(await results.save([failure('a', 'model_failed', sentAt(1))], 'v'), 0);
  });

  test('a result that cannot be used is there for the next who asks, and is dequeued', async (t) => {
    const { results } = at(t).open();
    await results.save([success('a', 1)], 'v');
    const use = () => {
      throw new ServingError('too_large', 'no answer is that large');
    };
    await assert.rejects(results.take('a', { use }), { code: 'too_large' });
    assert.deepEqual((await results.get('a'))?.outputs[0]?.data, Float32Array.of(1));
    assert.deepEqual(
      (await results.takePage(10))?.map(({ uri }) => uri),
      ['a'],
    );
  });

  test('a result that was used is gone', async (t) => {
    const { results } = at(t).open();
    await results.save([success('a', 1)], 'v');
    const used: unknown[] = [];
    const taken = await results.take('a', { use: (result) => used.push(result) });
    assert.deepEqual(used, [taken]);
    assert.equal(await results.get('a'), undefined);
  });

  test('a take for one enqueue leaves the result of another', async (t) => {
    const { results } = at(t).open();
    await results.save([success('a', 1, sentAt(1))], 'v');
    assert.equal(await results.take('a', { identity: 'm2' }), undefined);
    assert.equal(await outcomeOf(results, 'a'), 1);
    assert.equal((await results.take('a', { identity: 'm1' }))?.outputs[0]?.data[0], 1);
    assert.equal(await results.take('a'), undefined);
  });

  test('two who dequeue at once share the results, each goes to one of them', async (t) => {
    const place = at(t);
    const [one, two] = [place.open().results, place.open().results];
    const uris = Array.from({ length: 250 }, (_, i) => `uri-${i}`);
    await one.save(
      uris.map((uri, i) => (i % 10 === 0 ? failure(uri) : success(uri, i))),
      'v',
    );
    const [first, second] = await Promise.all([drained(one), drained(two)]);
    const all = uris.map((uri, i) => (i % 10 === 0 ? `${uri} bad_input` : `${uri} ${i}`));
    assert.deepEqual([...first, ...second].sort(), all.sort());
  });

  test('of two who take at once, one gets each result', async (t) => {
    const place = at(t);
    const stores = Array.from({ length: 4 }, () => place.open().results);
    const all = Array.from({ length: 500 }, (_, i) => success(`r${i}`, i, sentAt(i)));
    await stores[0]?.save(all, 'v');
    const taken = await Promise.all(stores.map((results) => drained(results)));
    assert.deepEqual(taken.flat().sort(), named(all));
    await stores[0]?.save([success('a', 1)], 'v');
    const single = await Promise.all(stores.map((results) => results.take('a')));
    assert.equal(single.filter(Boolean).length, 1);
  });

  test('a page has as many results as were asked for at most, the oldest first', async (t) => {
    const { results } = at(t).open();
    // A replacement is as old as the result that it replaces.
    await results.save([success('c', 0, sentAt(1))], 'v');
    await nextMs();
    for (const [i, uri] of ['d', 'b', 'e', 'a', 'c'].entries()) {
      await results.save([uri === 'b' ? failure(uri) : success(uri, i, sentAt(2))], 'v');
      await nextMs();
    }
    const pages: string[][] = [];
    for (let page = await results.takePage(2); page; page = await results.takePage(2))
      pages.push(page.map(nameOf));
    assert.deepEqual(pages, [['d 0', 'b bad_input'], ['e 2', 'a 3'], ['c 4']]);
    assert.equal(await results.get('b'), undefined, 'a failure that was listed is gone');
  });

  test('a page keeps to its bytes, and one result that is larger alone is reported and stays', async (t) => {
    const { results } = at(t).open();
    const text = (uri: string, length: number): Finished => ({
      uri,
      fields: { status: 'succeeded', value: `["${'x'.repeat(length)}"]`, error: '', outputs: '', exact: '' },
    });
    for (const one of [text('a', 400), text('b', 400), text('c', 400), text('large', 5_000)]) {
      await results.save([one], 'v');
      await nextMs();
    }
    const pages: string[][] = [];
    for (;;) {
      const page = await results.takePage(10, 1_000);
      if (!page) break;
      pages.push(page.map((one) => ('error' in one ? `${one.uri} ${one.error.code}` : one.uri)));
    }
    assert.deepEqual(pages, [['a', 'b'], ['c'], ['large too_large']]);
    assert.ok(await results.get('large'));
    assert.ok(await results.take('large'));
  });

  test('who breaks off a drain leaves the rest where it was', async (t) => {
    const place = at(t);
    const { results } = place.open();
    await results.save(MANY, 'v');
    const first: string[] = [];
    for await (const dequeued of results.drain()) {
      first.push(nameOf(dequeued));
      if (first.length === 130) break;
    }
    assert.equal(await results.save(MANY.slice(0, 200), 'v'), 0);
    const rest = await drained(place.open().results);
    assert.deepEqual([...first, ...rest].sort(), named(MANY));
  });

  test('what is released comes before what is saved after that', async (t) => {
    const { results } = at(t).open();
    for (const uri of ['c', 'a', 'b']) {
      await results.save([success(uri, 1)], 'v');
      await nextMs();
    }
    for await (const { uri } of results.drain()) {
      assert.equal(uri, 'c');
      break;
    }
    await nextMs();
    await results.save([success('d', 1)], 'v');
    const page = (await results.takePage(10))?.map(({ uri }) => uri) ?? [];
    assert.deepEqual(page.slice(0, 2).sort(), ['a', 'b']);
    assert.deepEqual(page.slice(2), ['d']);
  });

  test('a result that is put back stays away when a later one was taken meanwhile', async (t) => {
    const place = at(t);
    const [one, two] = [place.open().results, place.open().results];
    for (const finished of MANY.slice(0, 3)) {
      await one.save([finished], 'v');
      await nextMs();
    }
    for await (const dequeued of one.drain()) {
      assert.equal(nameOf(dequeued), 'r0 0');
      await two.save([success('r1', 9, enqueueLater)], 'v');
      assert.equal((await two.take('r1'))?.outputs[0]?.data[0], 9);
      break;
    }
    assert.equal(await two.get('r1'), undefined);
    assert.deepEqual(await drained(two), ['r2 2']);
  });
}

const enqueueLater = sentAt(1_000);
