import { test } from 'node:test';
import { everyMask } from './scenarios/partial.ts';

test('F4: of ten messages exactly those that must come again are named, whichever they are', (t) =>
  everyMask(t, { randomMasks: 200 }));
