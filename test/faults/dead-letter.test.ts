import { test } from 'node:test';
import { buried, buriedUnderFaults } from './support/dead-letter.ts';

test('F14: of 1,000 dead letters each is parked as it was, each uri failed once, and a result that was there stays', (t) =>
  buried(t, { messages: 1_000 }));

test('F14: dead letters whose parking or telling breaks off come again until each is parked and told once', (t) =>
  buriedUnderFaults(t, { messages: 200 }));
