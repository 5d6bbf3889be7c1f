/** In: nothing. Out: every rule there is, in the order of the report. docs/doctor.md has one row for each. */
import { ACCESS_RULES } from './access-rules.ts';
import { ALARM_RULES } from './alarm-rules.ts';
import { FUNCTION_RULES } from './function-rules.ts';
import { HTTP_RULES } from './http-rules.ts';
import { LOAD_RULES } from './load-rules.ts';
import { LOG_RULES } from './log-rules.ts';
import { MODEL_RULES } from './model-rules.ts';
import { NETWORK_RULES } from './network-rules.ts';
import { PACKAGE_RULES } from './package-rules.ts';
import { QUEUE_RULES } from './queue-rules.ts';
import { REDIS_RULES } from './redis-rules.ts';
import { type Rule, TOPICS } from './rule.ts';
import { STORAGE_RULES } from './storage-rules.ts';
import { TEMPLATE_RULES } from './template-rules.ts';

const ALL: readonly Rule[] = [
  ...TEMPLATE_RULES,
  ...MODEL_RULES,
  ...QUEUE_RULES,
  ...LOAD_RULES,
  ...FUNCTION_RULES,
  ...PACKAGE_RULES,
  ...REDIS_RULES,
  ...NETWORK_RULES,
  ...HTTP_RULES,
  ...ACCESS_RULES,
  ...STORAGE_RULES,
  ...LOG_RULES,
  ...ALARM_RULES,
];

export const RULES: readonly Rule[] = TOPICS.flatMap((topic) => ALL.filter((rule) => rule.topic === topic));
