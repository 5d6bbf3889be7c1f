/**
 * The types of rules, findings and facts. Rules are pure, reading no file and no clock, so that a test can trigger
 * each with modified facts.
 */
import type { JobConfig } from '../../lib/config/job.ts';
import type { MemoryPoint, ModelKind } from '../../onnx-import/index.ts';
import type { Settings } from '../template/config.ts';
import type { ArchiveFacts } from './archive.ts';
import type { Template } from './template.ts';

/** error: it will fail or lose data. warning: it will cause trouble under load or over time. info: costs and limits. */
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

export interface ImportFacts {
  /** Minimum function.memoryMB, measured at import with the default batchSize. Undefined if the model was not run. */
  readonly memoryMB: number | undefined;
  /** Peak memory by rows of a run, for other batch sizes. Older import reports do not have it. */
  readonly memory?: {
    readonly points: readonly MemoryPoint[];
    /** Upper limit of the rows of one run; batchSize cannot exceed it. Undefined if there is none. */
    readonly mostRows: number | undefined;
  };
  /** Milliseconds for one row, on the machine of the import. Undefined if the model was not run. */
  readonly latencyMs: number | undefined;
  readonly modelFile: string;
  readonly modelFileBytes: number;
  /** One record as tensors in a message (base64). Undefined if a size is dynamic or the model takes images. */
  readonly recordBytes: number | undefined;
}

export type ModelFacts = { readonly directory: string } & (
  | { readonly state: 'missing' }
  /** At s3://… or hf://…, where nothing is looked at. */
  | { readonly state: 'remote' }
  /** A worker may consist of any files. */
  | { readonly state: 'unneeded'; readonly bytes: number }
  | { readonly state: 'unusable'; readonly problem: string }
  | {
      readonly state: 'found';
      readonly kind: ModelKind;
      /** The sum over all files. */
      readonly bytes: number;
      /** By name relative to the directory. */
      readonly fileBytes: Readonly<Record<string, number>>;
      readonly importReport: ImportFacts | undefined;
      /** Why import-report.json could not be used. */
      readonly importReportProblem: string | undefined;
    }
);

export interface Facts {
  readonly stage: string;
  /** The value of `--stage`; undefined if the stage is the template's or the default. */
  readonly stageGiven: string | undefined;
  readonly job: JobConfig;
  readonly settings: Settings;
  /** Notes of readConfig about config.yaml. */
  readonly notes: readonly string[];
  /** Every parameter: its `--param`, or its default for the stage. */
  readonly parameters: Readonly<Record<string, string | number>>;
  /** Names of the `--param` that were given. */
  readonly given: ReadonlySet<string>;
  readonly model: ModelFacts;
  readonly template: Template | undefined;
  /** By function name. Undefined if there are no archives. */
  readonly archives: ReadonlyMap<string, ArchiveFacts> | undefined;
}

export interface Finding {
  readonly severity: Severity;
  /** Resource of the template, function or setting. */
  readonly where: string;
  /** The value, never a secret. */
  readonly found: string;
  readonly expected: string;
  /** These replace the rule's own text where it is too general. */
  readonly why?: string;
  readonly fix?: string;
}

/** A rule is checked only if these are known. */
export type Needs = 'settings' | 'template' | 'archives';

interface RuleText {
  /** Lower case words with hyphens. Part of the public output: scripts rely on it. */
  readonly id: string;
  readonly topic: Topic;
  readonly looksAt: string;
  readonly why: string;
  /** The remedy, which names the setting. */
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
  rule: RuleText & { readonly check: (archives: Archives, template: Template) => readonly Finding[] },
): Rule {
  const check = ({ archives, template }: Facts) =>
    archives && template ? rule.check(archives, template) : [];
  return { ...rule, needs: 'archives', check };
}

/** Stages with such a name are judged more strictly. */
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
