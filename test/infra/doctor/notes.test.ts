/** Notes about config.yaml, in the columns of a finding. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { examine } from '../../../infra/doctor/examine.ts';
import type { Facts } from '../../../infra/doctor/rule.ts';
import { SETTINGS_RULES } from '../../../infra/doctor/settings-rules.ts';

test('a note has its key, its lines and its reason, each in its column', () => {
  const notes = [
    'data.src (line 4): the stack makes its own Redis: `npm start` prints its address',
    'spark.master, spark.cores (lines 8, 9): there is no cluster to size',
    'no filter: `postProcessing: topN(1)` keeps the old answer',
  ];
  const rules = SETTINGS_RULES.filter(({ id }) => id === 'settings-notes');
  const { findings } = examine({ notes } as unknown as Facts, rules);
  assert.deepEqual(
    findings.map(({ where, found, why }) => [where, found, why]),
    [
      ['data.src', 'line 4', 'the stack makes its own Redis: `npm start` prints its address'],
      ['spark.master, spark.cores', 'lines 8, 9', 'there is no cluster to size'],
      ['config.yaml', 'no filter', '`postProcessing: topN(1)` keeps the old answer'],
    ],
  );
});
