/** Proves random graphs and runs them, for npm test and, with more of them, for the long run. */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { readModel } from '../../../onnx-import/batching/model.ts';
import { proofOf } from '../../../onnx-import/batching/proof.ts';
import { temporaryFolder } from '../../support/runner.ts';
import { compareRows } from './compare-rows.ts';
import { randomGraph, randomRows } from './random-graphs.ts';

interface Seeds {
  readonly from: number;
  readonly count: number;
}

/** Batches of two to five rows that each graph runs. */
const BATCHES = 6;
/** Fewer would mean that the rules or the generator prove nothing. */
const LEAST_PROVEN = 0.5;
/** Of those that are not proven; fewer would mean that no graph mixes rows, so that the test could not fail. */
const LEAST_MIXING = 0.3;

export async function assertProofsHold(t: TestContext, { from, count }: Seeds): Promise<void> {
  const file = join(await temporaryFolder(t), 'model.onnx');
  const operators = new Set<string>();
  const found = { proven: 0, unproven: 0, mixing: 0, invalid: 0 };
  for (let seed = from; seed < from + count; seed++) {
    const graph = randomGraph(seed);
    writeFileSync(file, graph.bytes);
    const { end } = proofOf(readModel(file), new Map());
    const company = await compareRows(file, randomRows(graph, seed), BATCHES, graph.fixedRows);
    if (company.kind === 'fails') {
      found.invalid += 1;
      continue;
    }
    if (end) {
      found.unproven += 1;
      if (company.kind === 'differs') found.mixing += 1;
      continue;
    }
    found.proven += 1;
    for (const operator of graph.operators) operators.add(operator);
    const what = company.kind === 'differs' ? company.what : '';
    assert.equal(company.kind, 'same', `seed ${seed} is proven: ${what} (${graph.operators.join(' ')})`);
  }
  t.diagnostic(`${JSON.stringify(found)}, ${operators.size} operators`);
  assert.ok(found.proven >= LEAST_PROVEN * count, JSON.stringify(found));
  assert.ok(found.mixing >= LEAST_MIXING * found.unproven, JSON.stringify(found));
  assert.ok(found.unproven >= 0.05 * count, JSON.stringify(found));
  assert.ok(found.invalid <= 0.02 * count, JSON.stringify(found));
  assert.ok(operators.size >= 50, `${operators.size} operators`);
}

export async function assertPlantedNeverProven(t: TestContext, { from, count }: Seeds): Promise<void> {
  const file = join(await temporaryFolder(t), 'model.onnx');
  const planted = new Set<string>();
  for (let seed = from; seed < from + count; seed++) {
    const graph = randomGraph(seed, true);
    if (graph.planted === undefined) continue;
    planted.add(graph.planted);
    writeFileSync(file, graph.bytes);
    const { end } = proofOf(readModel(file), new Map());
    assert.ok(end, `seed ${seed}: ${graph.planted} is proven (${graph.operators.join(' ')})`);
  }
  assert.ok(planted.size >= 9, [...planted].join(' '));
}
