/**
 * The common part of `wkr-serving-make` and `wkr-decentral-make`: they print the production script of a start command.
 */
import { resolve } from 'node:path';
import { CLASS_USAGE, defineWkrCommand, type Flags, type Given, readName, type WkrCommand } from './flags.ts';
import { productionScript, type ScriptRequest } from './production-script.ts';

interface Started<F extends Flags> {
  /** The command that the script starts. */
  readonly start: string;
  /** A module and its class. */
  readonly example: string;
  readonly flags: F;
  readonly required: readonly (keyof F & string)[];
  readonly wordLists: readonly string[];
  readonly spelled?: Readonly<Record<string, string>>;
  /** @throws bad_config for what the start would refuse */
  readonly read: (given: Given<F>) => Pick<ScriptRequest, 'startLimitS' | 'stopLimitS'> & {
    readonly name: string | undefined;
  };
}

export function defineMake<const F extends Flags>({
  start,
  example,
  read,
  ...flags
}: Started<F>): WkrCommand {
  const make = start.replace(/start$/, 'make');
  return defineWkrCommand({
    name: make,
    usage: CLASS_USAGE,
    about: `Prints a script for sh that starts and stops ${start} with these flags:
${make} ${example} ... -name pages > run_script.sh; sh run_script.sh start`,
    ...flags,
    async run(given, output) {
      const { name = '', ...limits } = read(given);
      readName('-name', name);
      // The script beside this one, where npm's folder of commands is not on the PATH.
      const script = resolve(process.argv[1] ?? '').replace(/-make(\.mjs)?$/, '-start$1');
      const args = [...given.positionals, ...given.words];
      const text = productionScript({ name, command: start, script, args, ...limits });
      output.answer({ script: text }, text.trimEnd());
      return 0;
    },
  });
}
