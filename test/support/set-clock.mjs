/**
 * Lets a test set the wall clock of this process and its children, as a person or NTP does: the file that SET_CLOCK_FILE names
 * holds the difference in ms. Clocks that only run are left alone. Loaded with --import, before all else reads the time.
 */
import { readFileSync } from 'node:fs';
import { ServerResponse } from 'node:http';

const READ_EVERY_MS = 10;
const RealDate = Date;
let shiftMs = 0;
let readAt = Number.NEGATIVE_INFINITY;

function now() {
  if (performance.now() - readAt > READ_EVERY_MS) {
    readAt = performance.now();
    shiftMs = Number(readFileSync(process.env['SET_CLOCK_FILE'] ?? '', 'utf8'));
  }
  return RealDate.now() + shiftMs;
}

globalThis.Date = new Proxy(RealDate, {
  apply: () => new RealDate(now()).toString(),
  construct: (target, values, as) => Reflect.construct(target, values.length === 0 ? [now()] : values, as),
  get: (target, name) => (name === 'now' ? now : Reflect.get(target, name)),
});

// Node's own header is not of this Date, and the AWS SDK corrects its clock by it.
const writeHead = Reflect.get(ServerResponse.prototype, 'writeHead');
Reflect.set(ServerResponse.prototype, 'writeHead', function (...values) {
  if (!this.hasHeader('date')) this.setHeader('date', new Date().toUTCString());
  return writeHead.apply(this, values);
});
