/** Every rule, in the order of the report. docs/how-to/doctor.md has one row for each. */
import { ACCESS_RULES } from './access-rules.ts';
import { FUNCTION_RULES } from './function-rules.ts';
import { MODEL_RULES } from './model-rules.ts';
import { PACKAGE_RULES } from './package-rules.ts';
import { QUEUE_RULES } from './queue-rules.ts';
import { type Rule, TOPICS } from './rule.ts';
import { SETTINGS_RULES } from './settings-rules.ts';

const ALL: readonly Rule[] = [
  ...SETTINGS_RULES,
  ...MODEL_RULES,
  ...QUEUE_RULES,
  ...FUNCTION_RULES,
  ...PACKAGE_RULES,
  ...ACCESS_RULES,
];

export const RULES: readonly Rule[] = TOPICS.flatMap((topic) => ALL.filter((rule) => rule.topic === topic));
