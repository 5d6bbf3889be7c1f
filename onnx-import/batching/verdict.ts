/** The verdict on whether records may share a run of a model: proven on its graph, and then shown by runs. */
import { ANALYSER_VERSION, type BatchAxes, type BatchingVerdict } from '../../lib/contract/verification.ts';
import { readModel } from './model.ts';
import type { ProbeReport, ProbeRequest } from './probe.ts';
import { axisOf, proofOf } from './proof.ts';

export interface ProofOptions {
  /** By input name; 0 for those that are missing. */
  readonly batchAxes?: BatchAxes | undefined;
  /** Most rows of a run in service. Default 32. */
  readonly maxRows?: number | undefined;
}

const MAX_ROWS = 32;

/**
 * @param model that of the file. Default: it is read
 * @returns the verdict of the proof, and the probe that must agree with it
 * @throws bad_model when the file is damaged
 */
export function prove(
  file: string,
  { batchAxes = {}, maxRows = MAX_ROWS }: ProofOptions = {},
  model = readModel(file),
): { readonly verdict: BatchingVerdict; readonly probe?: ProbeRequest } {
  const inputs = Object.entries(batchAxes).filter(([, axis]) => axis !== 0);
  // The service takes the rows of an output apart along any axis.
  const given = new Map(inputs);
  const { end, fixedRows, outputAxes } = proofOf(model, given, true);
  const inputAxes = inputs.length > 0 ? { inputAxes: Object.fromEntries(inputs) } : {};
  if (end) {
    const { message: reason, operator, node } = end;
    return {
      verdict: { verdict: 'not proven', reason, operator, node, ...inputAxes, analyser: ANALYSER_VERSION },
    };
  }
  const isElsewhere = [...outputAxes.values()].some((axis) => axis !== 0);
  const verdict: BatchingVerdict = {
    verdict: 'proven',
    ...inputAxes,
    ...(isElsewhere ? { outputAxes: Object.fromEntries(outputAxes) } : {}),
    analyser: ANALYSER_VERSION,
  };
  if (fixedRows === 1) return { verdict: { ...verdict, reason: 'the file fixes a run to one row' } };
  const rows = { fixedRows, maxRows: Math.max(2, maxRows) };
  const each = model.graph.inputs.map((input) => [input.name, axisOf(input, given)] as const);
  const probe = { file, inputAxes: each, outputAxes: [...outputAxes], ...rows };
  return { verdict, probe };
}

/** The verdict after the probe. A probe that differs, or that did not finish, ends the proof. */
export function afterProbe(verdict: BatchingVerdict, report: ProbeReport | undefined): BatchingVerdict {
  if (report?.kind === 'differs') return { ...verdict, verdict: 'not proven', reason: report.reason };
  if (report?.kind === 'not run') return { ...verdict, unconfirmed: report.reason };
  if (report?.kind !== 'not finished') return verdict;
  return { ...verdict, verdict: 'not proven', reason: `the proof was not tried by runs: ${report.reason}` };
}
