/**
 * Rules about config.yaml as a whole, the parameters of the deployment, and whether the template still matches them.
 * Parameters of a single topic are checked with that topic.
 */
import { visibilityTimeoutSeconds, withDefaults } from '../../lib/config/job.ts';
import { type Finding, isProduction, listed, settingsRule, templateRule } from './rule.ts';
import { functionsOf, recordOf, stageOf, type Template, textOf } from './template.ts';

const LEAST_LOG_DAYS = 7;

const notes = settingsRule({
  id: 'settings-notes',
  topic: 'Settings',
  looksAt: 'keys of an old config.yaml, and settings without effect',
  why: 'Another setting replaces the key, or it has no effect.',
  fix: 'the line of config.yaml that is named',
  check: (facts) =>
    facts.notes.map((note) => {
      // `redisUrl (line 3): the stack makes its own Redis`, or `no filter: …` of the whole file.
      const [, about = '', lines, why = note] = /^(.*?)(?: \((lines? [\d, ]+)\))?: (.*)$/s.exec(note) ?? [];
      const [where, found] = lines === undefined ? ['config.yaml', about] : [about, lines];
      return { severity: 'info', where, found, why, expected: 'the setting that replaces it, or no key' };
    }),
});

const resultTtl = settingsRule({
  id: 'result-ttl',
  topic: 'Settings',
  looksAt: 'resultTtlSeconds against the time in which a message may be delivered again',
  why: 'A message that is delivered again after its result has expired runs again, and a client that waits for the result gets "expired".',
  fix: 'resultTtlSeconds in config.yaml',
  check: ({ job }) => {
    const ttl = job.resultTtlSeconds;
    const { maxReceiveCount, retentionSeconds } = job.queue;
    const apart = visibilityTimeoutSeconds(job);
    const base = { where: 'resultTtlSeconds', found: `${ttl} s` };
    if (ttl < apart * maxReceiveCount) {
      const expected = `at least ${apart * maxReceiveCount} s: ${maxReceiveCount} deliveries, ${apart} s apart`;
      return [{ ...base, severity: 'warning', expected }];
    }
    if (ttl >= retentionSeconds) return [];
    const expected = `${retentionSeconds} s, as long as the queue keeps a record, if late deliveries must not run again`;
    return [{ ...base, severity: 'info', expected }];
  },
});

const dataKept = settingsRule({
  id: 'data-kept',
  topic: 'Storage',
  looksAt: 'keepData in a stage whose name begins with prod, prd or live',
  why: 'Removing the stack, or an update that replaces the bucket or Redis, deletes models, dead letters and results.',
  fix: '--param keepData=on (the default for prod)',
  check: (facts) => {
    if (!isProduction(facts) || facts.settings.bucketDeletionPolicy === 'Retain') return [];
    const found = 'keepData=off: DeletionPolicy is Delete for the bucket and for Redis';
    return [{ severity: 'warning', where: '--param keepData', found, expected: 'on' }];
  },
});

const logRetention = settingsRule({
  id: 'log-retention-short',
  topic: 'Logs and alarms',
  looksAt: 'logDays in a stage whose name begins with prod, prd or live',
  why: 'With less than 7 days, the logs of an incident may be gone before anybody investigates it.',
  fix: '--param logDays=14',
  check: (facts) => {
    const { logDays } = facts.settings;
    if (!isProduction(facts) || logDays >= LEAST_LOG_DAYS) return [];
    const expected = `at least ${LEAST_LOG_DAYS}`;
    return [{ severity: 'warning', where: '--param logDays', found: `${logDays} days`, expected }];
  },
});

const monitoring = settingsRule({
  id: 'monitoring-basic',
  topic: 'Logs and alarms',
  looksAt:
    'monitoring: the alarms on errors, throttles and duration of functions, the HTTP API and Redis evictions',
  why: 'Without them, crashes, timeouts, failed cold starts and throttled functions go unnoticed until results are late.',
  fix: '--param monitoring=full (the default for prod)',
  check: (facts) => {
    if (facts.parameters['monitoring'] === 'full') return [];
    const severity = isProduction(facts) ? 'warning' : 'info';
    const found = 'alarms on the age of the queue, dead letters and the memory of Redis only';
    return [{ severity, where: '--param monitoring', found, expected: 'full' }];
  },
});

const actions = settingsRule({
  id: 'alarm-actions',
  topic: 'Logs and alarms',
  looksAt: 'alarmEmail and alarmTopic: whether alarms notify anybody',
  why: 'An alarm without an action shows in the CloudWatch console only.',
  fix: '--param alarmEmail=<address>, or alarmTopic=own or the ARN of a topic',
  check: (facts) => {
    if (facts.settings.alarmActions.length > 0) return [];
    const severity = isProduction(facts) ? 'warning' : 'info';
    const expected = 'an e-mail address or a topic';
    return [{ severity, where: '--param alarmTopic', found: 'no AlarmActions', expected }];
  },
});

const topicUnheard = settingsRule({
  id: 'alarm-topic-unheard',
  topic: 'Logs and alarms',
  looksAt: 'subscriptions of the topic that the stack creates for its alarms',
  why: 'The topic of alarmTopic=own has no subscription until you add one.',
  fix: '--param alarmEmail=<address>, or subscribe to the topic of the output AlarmTopicArn after the deployment',
  check: ({ settings }) => {
    if (settings.files.alarmTopic !== 'own') return [];
    const found = 'no subscription in this template';
    return [{ severity: 'info', where: '--param alarmTopic', found, expected: 'at least one subscription' }];
  },
});

const stale = templateRule({
  id: 'template-stale',
  topic: 'Template',
  looksAt: 'the settings and the stage in the template against those of config.yaml and the command line',
  why: 'Findings about the template and the archives may not apply: a deployment packages them again.',
  fix: 'package again with the same options (--package-now does it), or name the right config and stage',
  check: (template, { settings, stageGiven, parameters, given }) => {
    const findings: Finding[] = [];
    const add = (where: string, found: string, expected: string) => {
      findings.push({ severity: 'warning', where, found, expected });
    };
    const packagedStage = stageOf(template);
    if (stageGiven !== undefined && packagedStage !== undefined && stageGiven !== packagedStage)
      add('--stage', `packaged for ${packagedStage}`, stageGiven);
    const different = differentSettings(template, textOf(settings.variables.batch['CLUSTER_SERVING_CONFIG']));
    if (different.length > 0)
      add('config.yaml', `packaged with other values of ${listed(different)}`, 'the current values');
    const [first] = functionsOf(template);
    if (given.has('arch') && first && first.processor !== parameters['arch'])
      add('--param arch', `packaged for ${first.processor}`, String(parameters['arch']));
    return findings;
  },
});

/** Top-level keys of the job's settings that differ from those in the template. What that lacks has its default. */
function differentSettings(template: Template, job: string): string[] {
  const packaged = functionsOf(template).map(({ variables }) => variables['CLUSTER_SERVING_CONFIG']);
  const text = packaged.find((value) => typeof value === 'string');
  if (text === undefined || text === job) return [];
  try {
    const read = (each: string) => recordOf(withDefaults(recordOf(JSON.parse(each))));
    const [before, now] = [read(text), read(job)];
    const keys = new Set([...Object.keys(before), ...Object.keys(now)]);
    return [...keys].filter((key) => JSON.stringify(before[key]) !== JSON.stringify(now[key]));
  } catch {
    return ['all of it'];
  }
}

export const SETTINGS_RULES = [
  notes,
  resultTtl,
  dataKept,
  logRetention,
  monitoring,
  actions,
  topicUnheard,
  stale,
];
