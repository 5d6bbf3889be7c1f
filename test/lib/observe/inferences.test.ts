/** What is counted of inferences, in the form of Triton's statistics, by the phases that their requests went through. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Phases } from '../../../lib/http/open-inference/phases.ts';
import { Inferences } from '../../../lib/observe/inferences.ts';

const NAMES = ['queue', 'compute_input', 'compute_infer', 'compute_output'] as const;

test('statistics are sums of what was timed, by size of batch and by version', () => {
  let [ms, wall] = [1_000, 0];
  const inferences = new Inferences(() => wall);
  const spend = (rows: number, took: readonly number[], hasFailed = false) => {
    const phases = new Phases(() => ms);
    phases.reaches('v7', rows);
    wall += 111;
    for (const [i, duration] of took.entries()) {
      ms += duration;
      // The last phase ends with the request.
      if (i < took.length - 1) phases.end(NAMES[i] ?? assert.fail());
    }
    phases.tell(inferences, hasFailed);
  };
  spend(5, [1, 2, 3, 4]);
  spend(5, [0, 1, 1, 1]);
  spend(1, [0, 0, 0.5, 0]);
  spend(1, [0, 5, 2], true);
  // What reaches no model is not counted.
  new Phases(() => ms).tell(inferences, true);
  const none = { count: 0, ns: 0 };
  assert.deepEqual(JSON.parse(JSON.stringify(inferences.of('v7', 'job'))), {
    name: 'job',
    version: 'v7',
    last_inference: 333,
    inference_count: 11,
    execution_count: 3,
    inference_stats: {
      success: { count: 3, ns: 13_500_000 },
      fail: { count: 1, ns: 7_000_000 },
      queue: { count: 3, ns: 1_000_000 },
      compute_input: { count: 3, ns: 3_000_000 },
      compute_infer: { count: 3, ns: 4_500_000 },
      compute_output: { count: 3, ns: 5_000_000 },
      cache_hit: none,
      cache_miss: none,
    },
    batch_stats: [
      {
        batch_size: 5,
        compute_input: { count: 2, ns: 3_000_000 },
        compute_infer: { count: 2, ns: 4_000_000 },
        compute_output: { count: 2, ns: 5_000_000 },
      },
      {
        batch_size: 1,
        compute_input: { count: 1, ns: 0 },
        compute_infer: { count: 1, ns: 500_000 },
        compute_output: { count: 1, ns: 0 },
      },
    ],
  });
  const countOf = (version: string) => inferences.of(version, 'job').inference_count;
  // Two versions are kept, the one that serves and the one before.
  assert.deepEqual(['v8', 'v7', 'v9', 'v7'].map(countOf), [0, 11, 0, 0]);
});

test('sizes of batches are listed up to 128, whatever sizes come', () => {
  const inferences = new Inferences(() => 1);
  for (let rows = 1; rows <= 130; rows++) {
    const phases = new Phases(() => 0);
    phases.reaches('v7', rows);
    phases.tell(inferences, false);
  }
  const { batch_stats, execution_count } = inferences.of('v7', 'job');
  assert.deepEqual([batch_stats.length, execution_count], [128, 130]);
});
