import { test } from 'node:test';
import { FAULTS, OPERATIONS, redisFault } from './support/redis-faults.ts';

for (const operation of OPERATIONS) {
  for (const fault of FAULTS) {
    test(`F6: ${operation.name}, when ${fault.name}: an error of ours, and on the same connection it works afterwards`, (t) =>
      redisFault(t, operation, fault));
  }
}
