/** `npm start`, as `cluster-serving start --foreground`: serve.ts implements both. */
import { parseArgs } from 'node:util';
import { asError, badConfig, ServingError } from '../../lib/contract/errors.ts';
import { serve } from './serve.ts';
import { readSettings, START_OPTIONS, START_OPTIONS_HELP } from './start-options.ts';

const USAGE = `Usage: npm start -- [options]

Starts the whole service on this machine. Without a config.yaml of your own it serves the digits sample.

${START_OPTIONS_HELP}
      --json              print the sample's report and the addresses as JSON
  -h, --help              this text`;

const OPTIONS = {
  json: { type: 'boolean', default: false },
  help: { type: 'boolean', short: 'h', default: false },
} as const;

/** Ends the process. */
export async function main(): Promise<never> {
  try {
    process.exit(await start());
  } catch (error) {
    const known = ServingError.from(error);
    console.error(known.code === 'internal' ? known.stack : `error: ${known.message}`);
    process.exit(known.code === 'bad_config' ? 2 : 1);
  }
}

async function start(): Promise<number> {
  const { help, json, ...values } = readOptions();
  if (help) {
    console.log(USAGE);
    return 0;
  }
  return serve(readSettings(values), { json });
}

function readOptions() {
  try {
    return parseArgs({ options: { ...START_OPTIONS, ...OPTIONS } }).values;
  } catch (error) {
    throw badConfig(`${asError(error).message}\n\n${USAGE}`);
  }
}
