/** `wkr-serving-make`: prints the production script of a `wkr-serving-start`. */
import { defineMake } from '../make.ts';
import { readServing, SPELLED, START_FLAGS } from './start.ts';

export const command = defineMake({
  start: 'wkr-serving-start',
  example: 'server.Worker',
  flags: START_FLAGS,
  required: ['name'],
  wordLists: ['device_map', 'allow_img_host'],
  spelled: SPELLED,
  read({ positionals, values }) {
    readServing(positionals, values);
    const { name, start_timeout: startMs, stop_timeout: stopMs } = values;
    return { name, startLimitS: Math.ceil(startMs / 1000) + 30, stopLimitS: Math.ceil(stopMs / 1000) + 15 };
  },
});
