/** Jobs from config texts and files, without the notes that readConfig has beside them. */
import { readConfig, readConfigText } from '../../lib/config/file.ts';
import type { JobConfig } from '../../lib/config/job.ts';

export function readConfigFile(path: string): JobConfig {
  return readConfig(path).job;
}

/** @param name what errors call the text */
export function parseConfig(content: string, name: string): JobConfig {
  return readConfigText(content, name).job;
}
