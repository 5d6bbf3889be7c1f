/** What a passport says of Lambda's limits, and which lines it asks for. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { lambdaFit, lambdaText } from '../../convert/lambda-fit.ts';
import { configLines, type Passport } from '../../convert/passport.ts';

const MB = 1024 * 1024;

test('a small model fits, and so does twice of it in /tmp', () => {
  const fit = lambdaFit(10 * MB, 40 * MB);
  assert.deepEqual([fit.fits, fit.fitsDefault, fit.memoryMB], [true, true, 192]);
  assert.ok(fit.limits.every((limit) => limit.fits));
  assert.equal(lambdaText(fit), 'fits, needs 192 MB of memory as measured here');
});

test('a model over a limit says which, and by how much; what is only good to know does not keep it out', () => {
  const large = lambdaFit(300 * MB, 700 * MB);
  assert.equal(large.fits, true);
  assert.match(
    lambdaText(large),
    /^fits, .*over the limit: \/tmp while a new version takes over: 600 of 512 MB, unzipped/,
  );
  const tooLarge = lambdaFit(513 * MB, 700 * MB);
  assert.equal(tooLarge.fits, false);
  assert.match(lambdaText(tooLarge), /^DOES NOT FIT.*\/tmp, where the model is downloaded to: 513 of 512 MB/);
  const tooHungry = lambdaFit(100 * MB, 9_000 * MB);
  assert.equal(tooHungry.fits, false);
  assert.match(lambdaText(tooHungry), /memory of a function: 11378 of 10240 MB/);
});

test('a model that needs more than the default memory asks for it in config.yaml', () => {
  const passportOf = (peak: number) =>
    ({ config: ['batchSize: 1'], measured: { lambda: lambdaFit(MB, peak) } }) as unknown as Passport;
  assert.deepEqual(configLines(passportOf(100 * MB)), ['batchSize: 1']);
  assert.deepEqual(configLines(passportOf(2_000 * MB)), ['batchSize: 1', 'function:', '  memoryMB: 2688']);
});
