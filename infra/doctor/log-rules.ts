/** Rules about log groups: each function has its own, with a retention that is neither endless nor too short. */
import { type DeployedFunction, functionsOf } from './deployment.ts';
import { type Facts, isProduction, settingsRule, templateRule } from './rule.ts';
import { numberOf, type Properties, recordOf, resourcesOf, type Template, textOf } from './template.ts';

const LEAST_LOG_DAYS = 7;

function logGroupOf(template: Template, one: DeployedFunction): readonly [string, Properties] | undefined {
  const own = textOf(recordOf(one.properties['LoggingConfig'])['LogGroup']);
  const wanted = own || `/aws/lambda/${textOf(one.properties['FunctionName'])}`;
  return resourcesOf(template, 'AWS::Logs::LogGroup').find(
    ([name, { LogGroupName }]) => textOf(LogGroupName) === wanted || wanted === `\${${name}}`,
  );
}

const groupMissing = templateRule({
  id: 'log-group-missing',
  topic: 'Logs and alarms',
  looksAt: 'a log group for every function',
  why: 'Lambda makes the missing one itself, without a retention, and it stays when the stack is gone; our roles may not make one, so that there is no log at all.',
  fix: 'osls makes them; look for disableLogs in serverless.yml',
  check: (template) =>
    functionsOf(template)
      .filter((one) => logGroupOf(template, one) === undefined)
      .map(({ name }) => ({
        severity: 'error',
        where: name,
        found: 'no AWS::Logs::LogGroup of its name',
        expected: `/aws/lambda/<function>`,
      })),
});

const retention = templateRule({
  id: 'log-retention',
  topic: 'Logs and alarms',
  looksAt: 'RetentionInDays of every log group',
  why: 'Logs without a retention are kept, and paid, for ever.',
  fix: '--param logDays',
  check: (template) =>
    resourcesOf(template, 'AWS::Logs::LogGroup')
      .filter(([, { RetentionInDays }]) => RetentionInDays === undefined)
      .map(([where]) => ({
        severity: 'warning',
        where,
        found: 'no RetentionInDays',
        expected: 'a number of days',
      })),
});

const shortRetention = settingsRule({
  id: 'log-retention-short',
  topic: 'Logs and alarms',
  looksAt: 'RetentionInDays in a stage whose name begins with prod, prd or live',
  why: 'What went wrong at the weekend is asked about on Monday; below 7 days the log of it may be gone.',
  fix: '--param logDays=14',
  check: (facts) => {
    if (!isProduction(facts)) return [];
    return logDays(facts)
      .filter(({ days }) => days < LEAST_LOG_DAYS)
      .map(({ where, days }) => ({
        severity: 'warning',
        where,
        found: `${days} days`,
        expected: `at least ${LEAST_LOG_DAYS}`,
      }));
  },
});

function logDays({ template, settings }: Facts): { where: string; days: number }[] {
  if (!template) return [{ where: '--param logDays', days: settings.logDays }];
  return resourcesOf(template, 'AWS::Logs::LogGroup').flatMap(([where, { RetentionInDays }]) => {
    const days = numberOf(RetentionInDays);
    return days === undefined ? [] : [{ where, days }];
  });
}

export const LOG_RULES = [groupMissing, retention, shortRetention];
