import { test } from 'node:test';
import { deadLettered, deadLetteredUnderFaults } from './scenarios/dead-letter.ts';

test('F14: of 1,000 dead letters each is archived as it was, each uri failed once, and a result that was there stays', (t) =>
  deadLettered(t, { messages: 1_000 }));

test('F14: dead letters whose archiving or failure message breaks off come again until each is archived and told once', (t) =>
  deadLetteredUnderFaults(t, { messages: 200 }));
