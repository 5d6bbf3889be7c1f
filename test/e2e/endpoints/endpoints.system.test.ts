/** One record through every endpoint of a service: HTTP, gRPC, the queue of three clients and the bridge give one answer, or refuse. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { WITH_PYTHON } from '../../support/python.ts';
import { compareEndpoints } from './compare.ts';
import { ENDPOINT_MODELS } from './models.ts';

/** Of all models together. */
const RECORDS = Number(process.env['ENDPOINT_RECORDS'] ?? 500);
const SEED = Number(process.env['ENDPOINT_SEED'] ?? 1);
const SHOWN = 5;

for (const [i, model] of ENDPOINT_MODELS.entries()) {
  test(
    `every endpoint and client gives one answer or one refusal: ${model.title}`,
    WITH_PYTHON,
    async (t) => {
      const each = Math.ceil(RECORDS / ENDPOINT_MODELS.length);
      const { differences, answered, refused, asked } = await compareEndpoints(
        t,
        model,
        each,
        SEED * 1_000 + i,
      );
      t.diagnostic(`${answered} answered, ${refused} refused; ${JSON.stringify(Object.fromEntries(asked))}`);
      assert.equal(
        differences.length,
        0,
        `${differences.length} of ${each}:\n${differences.slice(0, SHOWN).join('\n')}`,
      );
      assert.ok(answered > 0);
    },
  );
}
