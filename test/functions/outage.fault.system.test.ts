/** F27: what no record caused makes no dead letter, however long it lasts. */
import { test } from 'node:test';
import { outage } from './scenarios/outage.ts';

const CASES = { records: 40, deliveries: 25, seeds: 3 };

test('F27: records that wait while Redis is away, and comes and goes, have their own outcomes once it stays', (t) =>
  outage(t, 'redis', CASES));

test('F27: records that wait for a model have their own outcomes once there is one', (t) =>
  outage(t, 'model', CASES));

test('F27: records in S3 that wait for it have their own outcomes once it answers', (t) =>
  outage(t, 's3', { ...CASES, deliveries: 10 }));

test('F27: records that wait for one after the other have their own outcomes at last', (t) =>
  outage(t, 'all in turn', CASES));
