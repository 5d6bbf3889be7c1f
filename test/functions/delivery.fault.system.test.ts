import { test } from 'node:test';
import { duplicates, reordered } from './scenarios/delivery.ts';

test('F1: a message delivered one to five times, in any batches and to three workers at once, has one outcome', (t) =>
  duplicates(t, { messages: 300, seeds: 4 }));

test('F2: messages that come in any order and late, some while others are long done, have one outcome each', (t) =>
  reordered(t, { messages: 200, seeds: 5 }));
