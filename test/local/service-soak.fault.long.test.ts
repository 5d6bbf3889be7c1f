/**
 * The soak of the whole local service, with workers, Redis and the service itself killed at random.
 * SERVICE_SOAK_RECORDS=5000 SERVICE_SOAK_CALLS=2000 node --test test/local/service-soak.fault.long.test.ts runs a small one;
 * SERVICE_SOAK_SEED chooses other moments.
 */
import { test } from 'node:test';
import { WITH_PYTHON } from '../support/python.ts';
import { soakClients, soakService } from './soak.ts';

const RECORDS = Number(process.env['SERVICE_SOAK_RECORDS'] ?? 100_000);
const CALLS = Number(process.env['SERVICE_SOAK_CALLS'] ?? 20_000);
const seed = Number(process.env['SERVICE_SOAK_SEED'] ?? 1);

test(`${RECORDS} records of a worker, each with exactly one outcome`, WITH_PYTHON, (t) =>
  soakService(t, { kind: 'python', records: RECORDS, seed }),
);

test(`${RECORDS} records of a model in a process of its own, each with exactly one outcome`, (t) =>
  soakService(t, { kind: 'onnx', records: RECORDS, seed }));

test(`${CALLS} calls of a client, each with its own result or an error in time`, (t) =>
  soakClients(t, { kind: 'typescript', calls: CALLS, seed }));
