/**
 * In: a template and the settings it was made from. Out: what CloudFormation would refuse, and what no longer agrees.
 * Trap: a deployment packages again, so an old template is no danger there; a doctor that looks at one is misled.
 */
import { functionsOf, stageOf, VARIABLES } from './deployment.ts';
import { counted, type Finding, listed, megabytes, settingsRule, templateRule } from './rule.ts';
import { recordOf, referencesIn, type Template, textOf } from './template.ts';

const MAX_RESOURCES = 500;
const MAX_TEMPLATE_BYTES = 1024 * 1024;
const CROWDED = 0.9;

const references = templateRule({
  id: 'template-references',
  topic: 'Template',
  looksAt: 'Ref, Fn::GetAtt, Fn::Sub and DependsOn in resources and outputs',
  why: 'CloudFormation refuses the whole template for one name that is not in it.',
  fix: 'the name in serverless.yml or infra/*.yml; osls writes dead-letter as DeadDashletter',
  check: (template) => {
    const known = new Set([
      ...Object.keys(template.Resources),
      ...Object.keys(recordOf(template.Parameters)),
    ]);
    const parts = [
      ...Object.entries(template.Resources),
      ...Object.entries(recordOf(template.Outputs)).map(([name, part]) => [`output ${name}`, part] as const),
    ];
    return parts.flatMap(([where, part]) => {
      const lost = referencesIn(part).filter(({ name }) => !known.has(name));
      return lost.map(({ name, by }): Finding => {
        return {
          severity: 'error',
          where,
          found: `${by} of ${name}`,
          expected: 'a resource of this template',
        };
      });
    });
  },
});

const limits = templateRule({
  id: 'template-limits',
  topic: 'Template',
  looksAt: 'number of resources and size of the template',
  why: 'CloudFormation takes 500 resources and 1 MB, and refuses all of it above.',
  fix: 'fewer alarms or routes in one stack; a second job is a second stack anyway',
  check: (template, { templateBytes }) => {
    const count = Object.keys(template.Resources).length;
    const finding = (share: number, found: string, expected: string): Finding[] => {
      if (share <= CROWDED) return [];
      return [{ severity: share > 1 ? 'error' : 'warning', where: 'template', found, expected }];
    };
    return [
      ...finding(count / MAX_RESOURCES, counted(count, 'resource'), `at most ${MAX_RESOURCES}`),
      ...finding(
        templateBytes / MAX_TEMPLATE_BYTES,
        megabytes(templateBytes),
        `at most ${megabytes(MAX_TEMPLATE_BYTES)}`,
      ),
    ];
  },
});

const stale = templateRule({
  id: 'template-stale',
  topic: 'Template',
  looksAt: 'the settings and the stage in the template against those of config.yaml and the command line',
  why: 'The rest of this report is about a template that a deployment would replace.',
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
      add('config.yaml', `packaged with other values of ${listed(different)}`, 'the values of now');
    const [first] = functionsOf(template);
    if (given.has('arch') && first && first.processor !== parameters['arch'])
      add('--param arch', `packaged for ${first.processor}`, String(parameters['arch']));
    return findings;
  },
});

/** Top keys of the job's settings that differ from those a function gets. */
function differentSettings(template: Template, job: string): string[] {
  const packaged = functionsOf(template).map(({ variables }) => variables[VARIABLES.config]);
  const text = packaged.find((value) => typeof value === 'string');
  if (text === undefined || text === job) return [];
  const [before, now] = [parsed(text), parsed(job)];
  if (!before || !now) return ['all of it'];
  const keys = new Set([...Object.keys(before), ...Object.keys(now)]);
  return [...keys].filter((key) => JSON.stringify(before[key]) !== JSON.stringify(now[key]));
}

function parsed(text: string): Readonly<Record<string, unknown>> | undefined {
  try {
    return recordOf(JSON.parse(text));
  } catch {
    return undefined;
  }
}

const notes = settingsRule({
  id: 'settings-notes',
  topic: 'Settings',
  looksAt: 'keys of an old config.yaml, and settings without effect',
  why: 'What a key was meant to do is done by something else here, or by nothing.',
  fix: 'the line of config.yaml that is named',
  check: (facts) =>
    facts.notes.map((note) => {
      const [where = '', ...rest] = note.split(': ');
      return {
        severity: 'info',
        where,
        found: rest.join(': ') || note,
        expected: 'nothing, or what is meant',
      };
    }),
});

export const TEMPLATE_RULES = [references, limits, stale, notes];
