import { test } from 'node:test';
import { deadLettered, deadLetteredUnderFaults } from './support/dead-letter.ts';

test('F14: of 1,000 dead letters each is parked as it was, each uri failed once, and a result that was there stays', (t) =>
  deadLettered(t, { messages: 1_000 }));

test('F14: dead letters whose parking or telling breaks off come again until each is parked and told once', (t) =>
  deadLetteredUnderFaults(t, { messages: 200 }));
