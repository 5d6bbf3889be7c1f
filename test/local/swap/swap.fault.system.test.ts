/** F12: the model changes under 1,000 requests in flight, through both endpoints of the whole local stack. */
import assert from 'node:assert/strict';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { modelPrefix } from '../../../lib/contract/names.ts';
import { publishModel } from '../../../lib/registry/publish.ts';
import { quietLog } from '../../support/faults/quiet.ts';
import { temporaryFolder } from '../../support/runner.ts';
import { testStack } from '../../support/stack.ts';
import { until } from '../../support/until.ts';
import { startLoad } from './load.ts';
import { addModel, modelFolder } from './models.ts';
import { TORN } from './torn.ts';

const IN_FLIGHT = { predict: 128, queue: 872 };
/** A new pointer that is torn, and two new files. */
const TEARS = ['the pointer is half written', 'the file is cut', 'a byte of the file is another'];

test('1,000 requests in flight, a swap, torn uploads, a roll-back, a swap: none fails, none is of two models', async (t) => {
  const log = quietLog(t);
  const dataDir = await temporaryFolder(t, 'cs-swap-');
  const folders = await Promise.all([1, 2, 3].map((number) => modelFolder(t, addModel(number))));
  const [one, two, three] = folders as [string, string, string];
  const stack = await testStack(t, {
    config: 'jobName: swap\nmodelRefreshSeconds: 1',
    modelDirectory: one,
    dataDir,
  });
  const location = { bucket: stack.bucket, prefix: modelPrefix(stack.job) };
  const versions = new Map([[stack.model, 1]]);

  const downloads = join(dataDir, 'models', stack.job);
  const most: string[] = [];
  const look = async () => {
    const whole = (await readdir(downloads)).filter((name) => !name.includes('.partial-'));
    if (whole.length > most.length) most.splice(0, most.length, ...whole);
  };
  const watch = setInterval(() => void look().catch(() => undefined), 20);
  t.after(() => clearInterval(watch));

  const load = startLoad(stack, IN_FLIGHT);
  /** Both endpoints have answered with this model, from here on. */
  const serves = async (number: number) => {
    const from = load.answers.length;
    await until(() => {
      const endpoints = load.answers.slice(from).filter(({ numbers }) => numbers[0] === number);
      return ['predict', 'queue'].every((endpoint) =>
        endpoints.some((answer) => answer.endpoint === endpoint),
      );
    });
  };
  const swapTo = async (folder: string, number: number) => {
    const { version } = await publishModel(stack.aws.s3, location, folder);
    versions.set(version, number);
    await serves(number);
    return version;
  };
  let last = stack.model;
  try {
    await serves(1);
    await swapTo(two, 2);
    for (const { tear, message } of TORN.filter(({ name }) => TEARS.includes(name))) {
      const before = log.lines.length;
      await tear(stack.aws.s3, addModel(9), location);
      await until(() => log.lines.slice(before).some((line) => message.test(line)));
      await serves(2);
    }
    await swapTo(one, 1);
    last = await swapTo(three, 3);
  } finally {
    await load.stop();
  }

  assert.deepEqual(load.failures.slice(0, 3), [], `${load.failures.length} failed`);
  assert.equal(load.mostInFlight, IN_FLIGHT.predict + IN_FLIGHT.queue);
  const mixed = load.answers.filter(({ numbers }) => new Set(numbers).size !== 1);
  assert.deepEqual(mixed.slice(0, 3), [], `${mixed.length} answers of two models`);
  const known = [...versions.values()];
  const strange = load.answers.filter(({ numbers }) => !known.includes(numbers[0] as number));
  assert.deepEqual(strange.slice(0, 3), [], `${strange.length} answers of no model`);
  const queued = load.answers.filter(({ endpoint }) => endpoint === 'queue');
  const untrue = queued.filter(({ numbers, model }) => versions.get(model ?? '') !== numbers[0]);
  assert.deepEqual(untrue.slice(0, 3), [], `${untrue.length} results name another model`);
  assert.ok(most.length <= 2, `${most.join()} lay in the data folder together`);
  await until(async () => (await readdir(downloads)).join() === last);
  clearInterval(watch);
  // Before the folder goes.
  await stack.close();
  t.diagnostic(`${load.answers.length} answers, ${queued.length} of them through the queue`);
});
