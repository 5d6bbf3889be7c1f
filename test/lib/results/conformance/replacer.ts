/** Writes that may replace a failure. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ErrorCode } from '../../../../lib/contract/errors.ts';
import { enqueued } from '../../../support/enqueue.ts';
import { failedFieldsOf, fieldsOf, outcomeOf, success } from './records.ts';
import type { At, Place } from './world.ts';

/** A record that is replayed for the first time. */
const record = (identity = 'm1', message = 'the message', sentAt = 1) => ({
  uri: 'u',
  enqueue: enqueued(identity, sentAt, 1),
  message,
});

function open(place: Place) {
  const { results, states, replacer } = place.open();
  const save = (value: number, identity: string, sentAt: number) =>
    results.save([success('u', value, enqueued(identity, sentAt))], '');
  const fail = (code: ErrorCode = 'max_receives_exceeded', identity = 'm1', sentAt = 1) => {
    const fields = failedFieldsOf(code, `the record failed 5 times and was archived as ${identity}`);
    return results.save([{ uri: 'u', fields, enqueue: enqueued(identity, sentAt) }], '');
  };
  const announce = (identity: string, message: string) => states.announce({ uri: 'u', identity, message });
  return { results, states, replacer, outcome: () => outcomeOf(results, 'u'), save, fail, announce };
}

export function describeReplacer(at: At): void {
  test('the failure of this message is replaced once, a waiting client gets the result, and its claim is done', async (t) => {
    const { results, states, replacer, outcome, fail, announce } = open(at(t));
    await announce('m1', 'the message');
    await fail();
    assert.equal(await replacer.store(record(), fieldsOf(1), 'v1'), 'replaced');
    assert.equal(await outcome(), 1);
    const { model, identity } = (await results.get('u')) ?? assert.fail();
    assert.deepEqual([model, identity], ['v1', 'm1']);
    assert.equal(await states.status('u'), 'succeeded');
    assert.equal(await replacer.store(record(), fieldsOf(2), 'v2'), 'superseded');
    assert.equal(await outcome(), 1);
    assert.deepEqual(
      (await results.takePage(10))?.map(({ uri }) => uri),
      ['u'],
    );
  });

  test('a replayed record waits no longer, and its uri is done with the outcome of the other one', async (t) => {
    const { states, replacer, save, fail, announce } = open(at(t));
    await announce('m1', 'the message');
    await announce('m2', 'the message');
    await fail('max_receives_exceeded', 'm2', 2);
    await announce('m2', 'the message');
    assert.equal(await replacer.store(record('m2', 'the message', 2), fieldsOf(2), 'v1'), 'replaced');
    assert.equal(await states.status('u'), 'queued', 'the first is left');
    await save(1, 'm1', 1);
    assert.equal(await states.status('u'), 'succeeded');
  });

  test('the replay of a retry is not shown when a later enqueue had its outcome after that of the first message', async (t) => {
    const { replacer, outcome, fail, save } = open(at(t));
    await fail();
    assert.equal(await save(2, 'm2', 2), 1);
    assert.equal(await replacer.store(record('m1', 'the message', 3), fieldsOf(1), 'v1'), 'conflict');
    assert.equal(await outcome(), 2);
  });

  test('somebody who waits for a uri without a result gets the replayed one', async (t) => {
    const place = at(t);
    const { states, replacer, announce } = open(place);
    await announce('m1', 'the message');
    const waiting = place.open().results.wait('u', { timeoutMs: 20_000 });
    assert.equal(await replacer.store(record(), fieldsOf(3), 'v1'), 'replaced');
    assert.equal((await waiting).outputs[0]?.data[0], 3);
    assert.equal(await states.status('u'), 'succeeded', 'its announcement has its outcome');
  });

  test('any other failure stays, and a failure of the same record, enqueued earlier or later, is decided by that', async (t) => {
    const { results, replacer, outcome, fail, announce } = open(at(t));
    await fail('bad_input');
    assert.equal(await replacer.store(record(), fieldsOf(1), ''), 'conflict');
    await results.take('u').catch(() => undefined);
    await fail('max_receives_exceeded', 'm2', 2);
    assert.equal(await replacer.store(record(), fieldsOf(1), ''), 'conflict');
    assert.equal(await outcome(), 'max_receives_exceeded');
    // The same payload was enqueued again: its own replay counts, and there is nothing left for the earlier one to do.
    await announce('m2', 'the message');
    assert.equal(await replacer.store(record(), fieldsOf(1), ''), 'superseded');
    // A later announcement does not change the failed one.
    await announce('m3', 'the message');
    assert.equal(await replacer.store(record(), fieldsOf(1), ''), 'conflict');
    assert.equal(await replacer.store(record('m2', 'the message', 2), fieldsOf(2), ''), 'replaced');
    assert.equal(await outcome(), 2);
  });

  test("a record that is freed leaves an older record's result where it is", async (t) => {
    const { states, replacer, outcome, save } = open(at(t));
    await save(9, 'm0', 0);
    assert.equal(await replacer.free(record()), 'replaced');
    assert.deepEqual([await outcome(), await states.status('u')], [9, 'queued']);
  });

  test('a record enqueued later keeps its result, also when that was taken, and a cancelled one stays cancelled', async (t) => {
    const { results, states, replacer, outcome, save, announce } = open(at(t));
    await announce('m2', 'another message');
    for (const replace of [() => replacer.store(record(), fieldsOf(1), ''), () => replacer.free(record())])
      assert.equal(await replace(), 'conflict');
    assert.equal(await outcome(), undefined);
    await save(9, 'm2', 2);
    assert.equal(await replacer.store(record(), fieldsOf(1), ''), 'conflict');
    assert.equal(await outcome(), 9);
    await results.take('u');
    assert.equal(await replacer.store(record(), fieldsOf(1), ''), 'conflict');
    assert.equal(await outcome(), undefined);
    await announce('m3', 'a third message');
    assert.equal(await states.cancel('u'), true);
    assert.equal(await replacer.store(record(), fieldsOf(1), ''), 'superseded');
    assert.equal(await replacer.free(record()), 'superseded');
    assert.equal(await outcome(), 'cancelled');
  });

  test("a replay takes the place of an older record's result, and its own message that comes again changes nothing", async (t) => {
    const { replacer, outcome, save } = open(at(t));
    await save(9, 'm0', 0);
    assert.equal(await replacer.store(record(), fieldsOf(1), 'v'), 'replaced');
    assert.equal(await outcome(), 1);
    assert.equal(await save(5, 'm1', 1), 0);
    assert.equal(await save(6, 'm2', 2), 1);
    assert.equal(await outcome(), 6);
  });

  test('free takes the failure away and announces the record, whose replay then counts and is not saved twice', async (t) => {
    const { results, states, replacer, outcome, save, fail } = open(at(t));
    await fail();
    assert.equal(await replacer.free(record()), 'replaced');
    assert.equal(await replacer.free(record()), 'replaced', 'repeating it is safe');
    assert.equal(await outcome(), undefined);
    assert.equal(await results.takePage(10), undefined);
    assert.deepEqual(
      [await states.status('u'), await states.status('u', { identity: 'm1' })],
      ['queued', 'queued'],
    );
    assert.equal(await save(3, 'm1', 1), 0);
    const { enqueue } = record();
    assert.equal(await results.save([success('u', 4, enqueue)], 'v2'), 1);
    assert.equal(await outcome(), 4);
    assert.equal(await states.status('u'), 'succeeded');
    await results.take('u');
    assert.equal(await results.save([success('u', 5, enqueue)], 'v2'), 0);
  });

  test('a record that has its result keeps it when a second message of it is replayed', async (t) => {
    const { replacer, outcome, save } = open(at(t));
    await save(9, 'm1', 1);
    assert.equal(await replacer.store(record(), fieldsOf(1), ''), 'superseded');
    assert.equal(await replacer.free(record()), 'superseded');
    assert.equal(await outcome(), 9);
  });

  test('of those who replay one record at once, one stores and the others find it', async (t) => {
    const place = at(t);
    const { outcome, fail } = open(place);
    await fail();
    const handed = await Promise.all(
      [1, 2, 3].map((x) => place.open().replacer.store(record(), fieldsOf(x), '')),
    );
    assert.deepEqual(handed.toSorted(), ['replaced', 'superseded', 'superseded']);
    assert.equal(await outcome(), handed.indexOf('replaced') + 1);
  });

  test('a listing has one entry for each uri, in order, and nothing is replaced that cannot have a result', async (t) => {
    const place = at(t);
    const { results, states, replacer, fail } = open(place);
    await fail();
    await results.save([success('done', 1)], 'v');
    await states.cancel('gone');
    const isBlocked = await place.block('odd');
    if (isBlocked)
      assert.equal(await replacer.store({ ...record(), uri: 'odd' }, fieldsOf(1), ''), 'conflict');
    const listed = await replacer.outcomes(['odd', 'u', 'none', 'gone', 'done', 'u']);
    const failed = ['failed', 'max_receives_exceeded', 'the record failed 5 times and was archived as m1'];
    assert.deepEqual(
      listed.map(
        (one) => one && [one.status, one.code, one.message?.replace(/^.* cancelled /, 'cancelled ')],
      ),
      [
        undefined,
        failed,
        undefined,
        ['cancelled', 'cancelled', 'cancelled before it had a result'],
        ['succeeded', undefined, undefined],
        failed,
      ],
    );
    assert.deepEqual(await replacer.outcomes([]), []);
  });
}
