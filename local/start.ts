/**
 * `npm start`: runs the service on this machine after checking that it works. `cluster-serving start --foreground`
 * does the same; serve.ts implements both.
 */
import { enableCompileCache } from 'node:module';
import { parseArgs } from 'node:util';
import { badConfig, ServingError } from '../lib/contract/errors.ts';
import { serve } from './serve.ts';
import { readSettings, START_OPTIONS, START_OPTIONS_HELP } from './start-options.ts';

const USAGE = `Usage: npm start -- [options]

Starts the whole service on this machine. Without a config.yaml of your own it serves the digits sample.

${START_OPTIONS_HELP}
      --json              print the sample's report and the addresses as JSON
  -h, --help              this text`;

const OPTIONS = {
  ...START_OPTIONS,
  json: { type: 'boolean', default: false },
  help: { type: 'boolean', short: 'h', default: false },
} as const;

async function main(): Promise<number> {
  const { help, json, ...values } = readOptions();
  if (help) {
    console.log(USAGE);
    return 0;
  }
  // The processes of the model read the same sources, which is most of their start.
  const { directory } = enableCompileCache();
  if (directory !== undefined) process.env['NODE_COMPILE_CACHE'] ??= directory;
  return serve(readSettings(values), { json });
}

function readOptions() {
  try {
    return parseArgs({ options: OPTIONS }).values;
  } catch (error) {
    throw badConfig(`${(error as Error).message}\n\n${USAGE}`);
  }
}

main().then(
  (code) => process.exit(code),
  (error: unknown) => {
    const known = ServingError.from(error);
    console.error(known.code === 'internal' ? known.stack : `error: ${known.message}`);
    process.exit(known.code === 'bad_config' ? 2 : 1);
  },
);
