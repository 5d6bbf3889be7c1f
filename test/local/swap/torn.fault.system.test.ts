/** F12: a torn upload. The old version serves on, the tear is reported once per try, and a whole one takes over. */
import assert from 'node:assert/strict';
import { readdir } from 'node:fs/promises';
import { test } from 'node:test';
import { publishModel } from '../../../lib/registry/publish.ts';
import { until } from '../../support/until.ts';
import { addModel, LOCATION, modelBucket, modelFolder, openHost } from './models.ts';
import { TORN } from './torn.ts';

for (const { name, message, tear } of TORN) {
  test(`${name}: the old version serves, and what was published whole before or after does so again`, async (t) => {
    const s3 = await modelBucket(t);
    const old = await modelFolder(t, addModel(1));
    const first = await publishModel(s3, LOCATION, old);
    const { model, serving, errors, directory } = await openHost(t, s3);
    assert.equal(await serving(), 1);
    await tear(s3, addModel(2));
    for (let tries = 1; tries <= 3; tries++) {
      await model.refresh();
      assert.equal(await serving(), 1);
      assert.equal(errors.length, tries, 'not reported once per try');
      assert.match(errors.at(-1)?.message ?? '', message);
      assert.equal(errors.at(-1)?.code, 'model_unavailable');
      assert.ok((await readdir(directory)).length <= 2);
    }
    // Back to the version before, whose session is still the same.
    await publishModel(s3, LOCATION, old);
    await model.refresh();
    assert.deepEqual([errors.length, model.version, await serving()], [3, first.version, 1]);
    const next = await publishModel(s3, LOCATION, await modelFolder(t, addModel(2)));
    await model.refresh();
    assert.deepEqual([errors.length, model.version, await serving()], [3, next.version, 2]);
    await until(async () => (await readdir(directory)).join() === next.version);
  });

  test(`${name}, before anything served: requests get that error, and a complete upload serves the next`, async (t) => {
    const s3 = await modelBucket(t);
    await tear(s3, addModel(2));
    const { serving, directory } = await openHost(t, s3);
    for (let tries = 0; tries < 2; tries++) {
      await assert.rejects(serving(), (error: Error & { code?: string }) => {
        assert.equal(error.code, 'model_unavailable');
        return message.test(error.message);
      });
    }
    const { version } = await publishModel(s3, LOCATION, await modelFolder(t, addModel(2)));
    assert.equal(await serving(), 2);
    assert.deepEqual(await readdir(directory), [version]);
  });
}
