import { test } from 'node:test';
import { killedServer, lostWrites, stalePromoted } from './scenarios/loss.ts';

test('F7: a redis-server as the local stack starts it has every result it acknowledged, however often it is killed', (t) =>
  killedServer(t, { kills: 5 }));

test('F7: results that a Redis without a log loses are gone completely, never wrong, and made again when sent again', (t) =>
  lostWrites(t, { rounds: 5 }));

test('F7: a stale replica that is promoted has all results up to a point, whole, and the others are made when sent again', (t) =>
  stalePromoted(t, { rounds: 2 }));
