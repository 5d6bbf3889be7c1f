/** `wkr-decentral-make`: prints the production script of a `wkr-decentral-start`. */
import { defineMake } from '../make.ts';
import { readSettings, START_FLAGS, START_REQUIRED } from './start.ts';

export const command = defineMake({
  start: 'wkr-decentral-start',
  example: 'decentralize.ProcessingModel',
  flags: START_FLAGS,
  required: [...START_REQUIRED, 'name'],
  wordLists: ['remote_servers'],
  read({ positionals, values }) {
    readSettings(positionals, values);
    return { name: values.name };
  },
});
