/** Reads a JobConfig from the settings of a config file and reports every wrong value. */
import { ServingError } from '../contract/errors.ts';
import { withPreset } from './image-presets.ts';
import { type JobConfig, withDefaults } from './job.ts';
import type { SettingDefinition, ValuesOf } from './readers.ts';
import { GROUPS } from './schema.ts';
import type { Problem, Setting } from './settings.ts';
import { shown } from './value.ts';

/** The job matches the file only if there are no problems. Never throws. */
export function readJob(settings: ReadonlyMap<string, Setting>): { job: JobConfig; problems: Problem[] } {
  const problems: Problem[] = [];
  const read = <Name extends keyof typeof GROUPS>(name: Name) =>
    readValues(GROUPS[name], name === '' ? '' : `${name}.`, settings, problems);
  const { preset, ...image } = read('image');
  const job = withDefaults({
    ...read(''),
    image: withPreset(image, preset),
    import: read('import'),
    models: read('models'),
    queue: read('queue'),
    jobs: read('jobs'),
    function: read('function'),
    http: read('http'),
    budget: read('budget'),
    capture: read('capture'),
    release: read('release'),
    worker: read('worker'),
  });
  return { job, problems };
}

function readValues<Group extends Record<string, SettingDefinition<unknown>>>(
  group: Group,
  prefix: string,
  settings: ReadonlyMap<string, Setting>,
  problems: Problem[],
): Partial<ValuesOf<Group>> {
  const values: Record<string, unknown> = {};
  for (const [name, { expected, read }] of Object.entries(group)) {
    const setting = settings.get(`${prefix}${name}`);
    if (setting === undefined) continue;
    const { key, line, value } = setting;
    let message = `expected ${expected}, got ${shown(value)}`;
    try {
      const result = read(value);
      if (result !== undefined) {
        values[name] = result;
        continue;
      }
    } catch (error) {
      message = ServingError.from(error).message;
    }
    problems.push({ line, text: `${key}: ${message}` });
  }
  return values as Partial<ValuesOf<Group>>;
}
