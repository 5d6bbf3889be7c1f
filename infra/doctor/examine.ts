/** Runs every rule on the facts and lists the findings by topic, the most severe first and at most 20 per rule. */
import { type Facts, type Finding, type Rule, type Severity, TOPICS, type Topic } from './rule.ts';
import { RULES } from './rules.ts';

export interface Diagnosis extends Required<Finding> {
  readonly rule: string;
  readonly topic: Topic;
}

export interface Examination {
  readonly findings: readonly Diagnosis[];
  readonly counts: Readonly<Record<Severity, number>>;
  /** How many rules were checked. */
  readonly checked: number;
  /** Ids of the rules that need a template or archives that were not there. */
  readonly unchecked: readonly string[];
  /** Findings beyond MAX_PER_RULE, which are counted but not listed. */
  readonly unlisted: number;
}

const MAX_PER_RULE = 20;
const ORDER: readonly Severity[] = ['error', 'warning', 'info'];

export function examine(facts: Facts, rules: readonly Rule[] = RULES): Examination {
  const counts: Record<Severity, number> = { error: 0, warning: 0, info: 0 };
  const listedFindings: Diagnosis[] = [];
  let unlisted = 0;
  const able = rules.filter((rule) => canLook(rule, facts));
  for (const rule of able) {
    const found = rule.check(facts);
    for (const { severity } of found) counts[severity]++;
    const worstFirst = found.toSorted((a, b) => ORDER.indexOf(a.severity) - ORDER.indexOf(b.severity));
    const shown = worstFirst.slice(0, MAX_PER_RULE);
    unlisted += found.length - shown.length;
    listedFindings.push(...shown.map((finding) => diagnosis(rule, finding)));
  }
  return {
    findings: listedFindings.toSorted(
      (a, b) =>
        TOPICS.indexOf(a.topic) - TOPICS.indexOf(b.topic) ||
        ORDER.indexOf(a.severity) - ORDER.indexOf(b.severity),
    ),
    counts,
    checked: able.length,
    unchecked: rules.filter((rule) => !able.includes(rule)).map(({ id }) => id),
    unlisted,
  };
}

function canLook({ needs }: Rule, { template, archives }: Facts): boolean {
  if (needs === 'settings') return true;
  return template !== undefined && (needs === 'template' || archives !== undefined);
}

function diagnosis({ id, topic, why, fix }: Rule, finding: Finding): Diagnosis {
  return { rule: id, topic, why, fix, ...finding };
}
