/** Says what the tests caught and what they let through, as text and as JSON. */
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Drawn } from './chance/draw.ts';
import { linesOf, type Mutant } from './mutant.ts';
import type { Outcome } from './try.ts';

/** Below this share of caught mutants the run fails. What means the same with the bug as without counts for neither side. */
const LEAST_CAUGHT = 0.9;

/** A bug of chance that means the same as the code without it, or that no test has to notice. */
export interface Judgement {
  readonly file: string;
  /** The line that it is in, without indentation. */
  readonly line: string;
  /** That line with it. */
  readonly bug: string;
  /** `equivalent`: nothing that anybody could see changes. */
  readonly verdict: 'equivalent' | 'tolerated';
  readonly why: string;
}

export interface Judged extends Outcome {
  readonly judgement?: Judgement | undefined;
}

export function judge(root: string, outcomes: readonly Outcome[], path: string): Judged[] {
  const judgements = JSON.parse(readFileSync(path, 'utf8')) as readonly Judgement[];
  return outcomes.map((outcome) => {
    const { mutant } = outcome;
    if (mutant.judgement !== undefined) {
      const { file, judgement: why } = mutant;
      return { ...outcome, judgement: { file, ...linesIn(root, mutant), verdict: 'tolerated', why } };
    }
    const { line, bug } = linesIn(root, mutant);
    const judgement = judgements.find(
      (one) => one.file === mutant.file && one.line === line && one.bug === bug,
    );
    return { ...outcome, judgement };
  });
}

const linesIn = (root: string, mutant: Mutant) =>
  linesOf(readFileSync(join(root, mutant.file), 'utf8'), mutant);

interface Counts {
  caught: number;
  equivalent: number;
  survived: number;
}

function count(outcomes: readonly Judged[]): Counts {
  const counts: Counts = { caught: 0, equivalent: 0, survived: 0 };
  for (const { result, judgement } of outcomes) {
    if (result === 'caught') counts.caught++;
    else if (judgement?.verdict === 'equivalent') counts.equivalent++;
    else counts.survived++;
  }
  return counts;
}

const shareOf = ({ caught, survived }: Counts) => caught / Math.max(1, caught + survived);
const percent = (share: number) => Number((share * 100).toFixed(1));

/** @returns the text, and whether enough was caught */
export function report(root: string, outcomes: readonly Judged[], isWhole: boolean) {
  const survivors = outcomes.filter(({ result }) => result === 'survived');
  const describe = ({ mutant, judgement, tried, reached }: Judged) => {
    const { line, bug } = linesIn(root, mutant);
    const title = mutant.guarantee ?? `${tried} of ${reached} test files ran`;
    const indented = (mark: string, text: string) => text.split('\n').map((one) => `    ${mark} ${one}`);
    const head = judgement === undefined ? 'SURVIVED' : `${judgement.verdict} (${judgement.why})`;
    return [`${head} ${mutant.file}: ${title}`, ...indented('-', line), ...indented('+', bug), ''];
  };
  const stale = outcomes.filter(({ result, judgement }) => result === 'caught' && judgement !== undefined);
  const counts = count(outcomes);
  const lines = [
    ...survivors.flatMap(describe),
    ...stale.flatMap((one) => [`caught by now (${one.by}); take its judgement away:`, ...describe(one)]),
    `${counts.caught} of ${outcomes.length} caught, ${counts.equivalent} mean the same, ${counts.survived} survived: ${percent(shareOf(counts))} %`,
  ];
  const isGood = stale.length === 0 && (!isWhole || shareOf(counts) >= LEAST_CAUGHT);
  return { text: `${lines.join('\n')}\n`, isGood };
}

interface Run {
  readonly seed: number;
  readonly minutes: number;
  readonly coverageMinutes: number;
  readonly jobs: number;
  /** Test files that were not green without a bug. */
  readonly leftOut: readonly string[];
}

/** The result of a run as lines of JSON: its numbers, and each bug. */
export function resultOf(root: string, outcomes: readonly Judged[], run: Run): string {
  const git = (...options: string[]) => execFileSync('git', options, { cwd: root, encoding: 'utf8' }).trim();
  const parts = Map.groupBy(outcomes, ({ mutant }) => (mutant as Drawn).part ?? 'by hand');
  const head = {
    commit: git('rev-parse', 'HEAD'),
    isClean: git('status', '--porcelain', '--untracked-files=no') === '',
    ...run,
    percent: percent(shareOf(count(outcomes))),
    ...count(outcomes),
    parts: Object.fromEntries(
      [...parts].map(([part, list]) => [part, { percent: percent(shareOf(count(list))), ...count(list) }]),
    ),
  };
  const lines = outcomes.map(({ mutant, result, by, tried, reached, judgement }) =>
    JSON.stringify({
      file: mutant.file,
      ...linesIn(root, mutant),
      kind: (mutant as Drawn).kind,
      result,
      by,
      ...(result === 'survived' ? { tried, reached, verdict: judgement?.verdict, why: judgement?.why } : {}),
    }),
  );
  return `${[JSON.stringify(head), ...lines].join('\n')}\n`;
}
