/** Asserts what must hold after an overload, apart from times. */
import assert from 'node:assert/strict';
import type { OverloadReport } from './overload.ts';

/** More than before the overload. */
const MEMORY_MB = 256;

/** More were refused than served. */
export function isOverload({ overloaded: { sent, statuses } }: OverloadReport): boolean {
  return (statuses[429] ?? 0) > sent / 2;
}

/** @param mustBeOverload false: if few were refused, nothing else may be broken either */
export function assertSound(report: OverloadReport, mustBeOverload = true): void {
  const { overloaded, records, lost, memoryBeforeMb, memoryAfterMb } = report;
  const { sent, statuses, withoutRetryAfter, wrong } = overloaded;
  const { 200: served = 0, 429: refused = 0, ...other } = statuses;
  assert.deepEqual(other, {}, `neither served nor refused: ${wrong.join()}`);
  assert.equal(served + refused, sent);
  assert.ok(served > 0, 'no request was served');
  assert.ok(isOverload(report) || !mustBeOverload, `${refused} of ${sent} refused: no overload`);
  assert.equal(withoutRetryAfter, 0);
  assert.deepEqual(wrong, []);
  assert.deepEqual(records.wrong, []);
  assert.ok(records.sent === 0 || records.uris.length > 0, 'no record was accepted');
  assert.equal(records.withoutRetryAfter, 0);
  assert.deepEqual(lost, [], `of ${records.uris.length} accepted records`);
  const grownMb = memoryAfterMb - memoryBeforeMb;
  assert.ok(grownMb < MEMORY_MB, `${grownMb} MB more than before`);
}
