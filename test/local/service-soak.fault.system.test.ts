/** The short form of test/local/service-soak.fault.long.test.ts. Most of its time a message of a service that was killed is hidden. */
import { test } from 'node:test';
import { soakClients, soakService } from './soak.ts';

// One after the other: the clients of a process have the keys of one service.
test('1,000 records of a worker, whose service is killed at random: each has exactly one outcome', (t) =>
  soakService(t, { kind: 'typescript', records: 1_000, seed: 2 }));

test('1,000 records of a model in a process of its own: each has exactly one outcome', (t) =>
  soakService(t, { kind: 'onnx', records: 1_000, seed: 3 }));

test('500 calls of a client: each has its own result, or an error in time', (t) =>
  soakClients(t, { kind: 'typescript', calls: 500, seed: 4 }));
