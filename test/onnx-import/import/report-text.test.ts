/** Every combination of what an import found out is a report whose lines do not contradict each other. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ANALYSER_VERSION, type Verification } from '../../../lib/contract/verification.ts';
import { type ImportReport, importReportText } from '../../../onnx-import/report/import-report.ts';
import { SERVICE } from '../../../release/service-words.ts';

const REPORT: ImportReport = {
  version: 1,
  converter: { name: 'onnx-import', version: '1' },
  source: { format: 'onnx', files: [] },
  options: {},
  model: { file: 'model.onnx', opset: 17, irVersion: 8, files: [], bytes: 1 },
  inputs: [],
  outputs: [],
  notes: [],
  images: [],
  config: [],
  check: { loads: true, runs: true, reference: 'none given', nan: {} },
  measured: {
    at: '',
    importMs: 1,
    loadMs: 1,
    memoryGrowthBytes: 0,
    memoryPeakBytes: 0,
    machine: { cpu: 'a processor', threads: 2, memoryBytes: 1, platform: 'linux', node: '24' },
    lambda: {
      fits: null,
      limits: [],
      memoryMB: null,
      rows: null,
      batchSize: null,
      fitsDefault: null,
      batchSizeAtDefault: null,
      extrapolated: false,
    },
  },
};

const analyser = ANALYSER_VERSION;
const BATCHING: Readonly<Record<string, Verification['batching']>> = {
  proven: { verdict: 'proven', analyser },
  untried: { verdict: 'proven', unconfirmed: 'Invalid dimensions', analyser },
  'one row': { verdict: 'proven', reason: 'the file fixes a run to one row', analyser },
  ended: { verdict: 'not proven', reason: 'it adds up rows', operator: 'CumSum', node: 'sum', analyser },
};
const runtime = { onnxruntime: '1.30.0', architecture: 'x64', disabledOptimizers: [] };
const REWRITES: Readonly<Record<string, Omit<Verification, 'batching'>>> = {
  agree: { runtime: { ...runtime, level: 'all' }, comparison: 'agrees' },
  'one off': {
    runtime: { ...runtime, level: 'all', disabledOptimizers: ['GeluFusionL2'] },
    comparison: 'agrees',
  },
  'all off': { runtime: { ...runtime, level: 'disabled' }, comparison: 'agrees' },
  'not compared': {
    runtime: { ...runtime, level: 'disabled' },
    comparison: 'skipped',
    reason: 'it is large',
  },
};

function textOf(runs: boolean, hasReference: boolean, verification: Verification): string {
  const check = { ...REPORT.check, runs, reference: hasReference ? 'agrees' : 'none given' } as const;
  const isTimed = runs || hasReference;
  const measured = {
    ...REPORT.measured,
    ...(isTimed ? { latencyP50Ms: 2 } : {}),
    ...(hasReference ? { referenceMaxError: { y: 1e-7 } } : {}),
  };
  return importReportText({ ...REPORT, check, measured, verification }, SERVICE);
}

test('without a service the text speaks of none', () => {
  const sample = { body: '{}', picture: true };
  const config = ['image:', '  layout: hwc'];
  const alone = importReportText({ ...REPORT, sample, config });
  assert.doesNotMatch(alone, /cluster-serving|Lambda|config\.yaml|predict/);
  for (const word of [/cluster-serving predict/, /- Lambda:/, /For config\.yaml:/])
    assert.match(importReportText({ ...REPORT, sample, config }, SERVICE), word);
});

test('no line of a report contradicts another', () => {
  for (const runs of [true, false]) {
    for (const hasReference of [true, false]) {
      for (const [how, batching] of Object.entries(BATCHING)) {
        for (const [what, rewrites] of Object.entries(REWRITES)) {
          const text = textOf(runs, hasReference, { batching, ...rewrites });
          const which = `${runs} ${hasReference} ${how} ${what}\n${text}`;
          assert.equal(text.includes('never run'), !runs && !hasReference, which);
          assert.equal(text.includes('made-up rows)'), runs, which);
          assert.equal(text.includes('p50 of the reference'), !runs && hasReference, which);
          assert.equal(/check: loads; runs(?! on its reference)/.test(text), runs, which);
          assert.equal(text.includes('equals its reference'), hasReference, which);
          assert.equal(text.includes('no run has tried it'), how === 'untried', which);
          assert.equal(text.includes('records share runs'), how === 'proven' || how === 'untried', which);
          assert.equal(text.includes('so the model runs without them'), what === 'not compared', which);
          assert.doesNotMatch(text, /verified|NOT RUN/, which);
        }
      }
    }
  }
});

test('what was never run says so, and what was proven beside it says that no run has tried it', () => {
  const text = textOf(false, false, {
    batching: BATCHING['untried'] as Verification['batching'],
    ...(REWRITES['not compared'] as Omit<Verification, 'batching'>),
  });
  assert.match(text, /- check: loads; never run, because no made-up input was accepted\n/);
  assert.match(
    text,
    /- verification: records share runs: .* another; no run has tried it, because no made-up input was accepted\n/,
  );
  assert.match(
    text,
    /- verification: onnxruntime's rewrites were not compared, so the model runs without them: it is large\n/,
  );
});
