import { test } from 'node:test';
import { twoWorkers } from './scenarios/two-workers.ts';

test('F5: two workers on one uri never leave a result that is part of the one and part of the other', (t) =>
  twoWorkers(t, { rounds: 60 }));
