import { before, describe, test } from 'node:test';
import { type Bundles, packagedFunctions } from '../support/faults/worker.ts';
import { crash, MOMENTS } from './scenarios/crash.ts';

describe('F3: the packaged batch function is killed', { concurrency: 2 }, () => {
  let bundles: Bundles;
  before(async () => {
    bundles = await packagedFunctions();
  });

  for (const moment of MOMENTS) {
    test(`${moment.name}: no uri is lost, none has two outcomes`, (t) => crash(t, bundles, moment, 1));
  }
});
