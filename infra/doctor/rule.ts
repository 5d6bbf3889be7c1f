/**
 * In: nothing. Out: what a rule is, what it finds, and what it may look at.
 * Trap: a rule is pure. It reads no file and no clock, so that a test can trip it with a changed copy of real facts.
 */
import type { MemoryPoint } from '../../convert/check/memory.ts';
import type { ModelKind } from '../../convert/kinds.ts';
import type { JobConfig } from '../../lib/config/job.ts';
import type { Settings } from '../config.ts';
import type { ArchiveFacts } from './archive.ts';
import type { Template } from './template.ts';

/** error: it will fail or lose something. warning: it will hurt some day. info: good to know. */
export type Severity = 'error' | 'warning' | 'info';

export const TOPICS = [
  'Settings',
  'Model',
  'Queue',
  'Functions',
  'Package',
  'Redis',
  'Network',
  'HTTP',
  'Access',
  'Storage',
  'Logs and alarms',
  'Template',
] as const;

export type Topic = (typeof TOPICS)[number];

export interface ModelPassport {
  /** The least function.memoryMB, as measured at import for the default batchSize. Undefined where it was not run. */
  readonly memoryMB: number | undefined;
  /** The peak by rows of a run, for other batchSizes; older passports do not have it. */
  readonly memory?: {
    readonly points: readonly MemoryPoint[];
    /** A run has no more, whatever batchSize says. Undefined: batchSize rows. */
    readonly mostRows: number | undefined;
  };
  /** Of one row, on the machine of the import. Undefined where it was not run. */
  readonly latencyMs: number | undefined;
  readonly modelFile: string;
  readonly modelFileBytes: number;
  /** One record as tensors in a message (base64). Undefined where a size is free or the model takes pictures. */
  readonly recordBytes: number | undefined;
}

export type ModelFacts = { readonly directory: string } & (
  | { readonly state: 'missing' }
  | { readonly state: 'unusable'; readonly problem: string }
  | {
      readonly state: 'found';
      readonly kind: ModelKind;
      /** Of all its files. */
      readonly bytes: number;
      /** By name relative to the directory. */
      readonly fileBytes: Readonly<Record<string, number>>;
      readonly passport: ModelPassport | undefined;
      /** Why there is a passport.json and no passport. */
      readonly passportProblem: string | undefined;
    }
);

export interface Facts {
  readonly stage: string;
  /** What `--stage` said; undefined when the stage follows from the template or is the default. */
  readonly stageGiven: string | undefined;
  readonly job: JobConfig;
  readonly settings: Settings;
  /** What readConfig has to say of the file. */
  readonly notes: readonly string[];
  /** Every `--param`, and the defaults of the others. */
  readonly parameters: Readonly<Record<string, string | number>>;
  /** Names of the `--param` that were given. */
  readonly given: ReadonlySet<string>;
  readonly model: ModelFacts;
  readonly template: Template | undefined;
  /** Of the file; 0 without one. */
  readonly templateBytes: number;
  /** By function name. Undefined where there is no folder of archives. */
  readonly archives: ReadonlyMap<string, ArchiveFacts> | undefined;
}

export interface Finding {
  readonly severity: Severity;
  /** Resource of the template, function or setting. */
  readonly where: string;
  /** The value, never a secret. */
  readonly found: string;
  readonly expected: string;
  /** Where the rule's own sentence is too general. */
  readonly why?: string;
  readonly fix?: string;
}

/** What must be there for a rule to look at anything. */
export type Needs = 'settings' | 'template' | 'archives';

interface RuleText {
  /** Lower case, words by hyphens; scripts rely on it. */
  readonly id: string;
  readonly topic: Topic;
  readonly looksAt: string;
  readonly why: string;
  /** What to do, naming the setting. */
  readonly fix: string;
}

export interface Rule extends RuleText {
  readonly needs: Needs;
  readonly check: (facts: Facts) => readonly Finding[];
}

export function settingsRule(rule: RuleText & Pick<Rule, 'check'>): Rule {
  return { ...rule, needs: 'settings' };
}

export function templateRule(
  rule: RuleText & { readonly check: (template: Template, facts: Facts) => readonly Finding[] },
): Rule {
  const check = (facts: Facts) => (facts.template ? rule.check(facts.template, facts) : []);
  return { ...rule, needs: 'template', check };
}

type Archives = ReadonlyMap<string, ArchiveFacts>;

export function archiveRule(
  rule: RuleText & {
    readonly check: (archives: Archives, template: Template, facts: Facts) => readonly Finding[];
  },
): Rule {
  const check = (facts: Facts) =>
    facts.archives && facts.template ? rule.check(facts.archives, facts.template, facts) : [];
  return { ...rule, needs: 'archives', check };
}

/** A stage that others rely on, by its name. */
export function isProduction({ stage }: Pick<Facts, 'stage'>): boolean {
  return /^(prod|prd|live)/i.test(stage);
}

export function megabytes(bytes: number): string {
  return `${(bytes / (1024 * 1024)).toFixed(1)} MB`;
}

const MAX_LISTED = 6;

/** `a, b, c and 4 more`. */
export function listed(names: readonly string[]): string {
  const shown = names.slice(0, MAX_LISTED).join(', ');
  return names.length > MAX_LISTED ? `${shown} and ${names.length - MAX_LISTED} more` : shown;
}

export function counted(count: number, one: string, many = `${one}s`): string {
  return `${count.toLocaleString('en-US')} ${count === 1 ? one : many}`;
}
