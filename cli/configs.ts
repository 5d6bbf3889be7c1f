/** The config files of a service. Apart from service.ts, as most commands read none. */
import { readConfig } from '../lib/config/file.ts';
import type { JobConfig } from '../lib/config/job.ts';
import type { StackRecord } from '../local/service/data-folder.ts';

/** @param said what --config was, as the record of a service has it. @throws bad_config */
export function configsOf(
  said: StackRecord['startedWith'][string] | undefined,
): { readonly config: string; readonly job: JobConfig }[] {
  const paths = [said].flat().filter((path) => typeof path === 'string');
  return paths.map((config) => ({ config, job: readConfig(config).job }));
}
